"""How much larger than usual a reply may be. Settings name it, and programs that only carry messages read them: this
file has no torch, which costs them two seconds and 180 MB."""

FACTOR = 50.0
"""How many times as large as the others' a reply may be. Of honest clients, the largest that was measured is 9.4 times
(docs/deploy.md, Faults)."""
CLIPPED, AGAINST = 20.0, 3.0
"""How many times as large as usual a change may be, at all and against the other clients, before a deployment clips it.
Of honest clients, the largest that were measured are 9.4 and 2.6."""
