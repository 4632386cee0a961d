"""The audit of a run: what an adversary learns or breaks, with and without defences, and what these cost."""
