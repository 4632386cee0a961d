"""The attacks that the audit plays, a file for each kind; ``all_probes.py`` is the table of them."""
