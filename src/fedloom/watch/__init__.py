"""Watch a run or a deployment while it works: one reading of its folder, shown as a page, in a terminal, as health
and as numbers for Prometheus. Everything is read; nothing is written into the folder, and nothing of it is executed."""
