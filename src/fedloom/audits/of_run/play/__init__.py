"""How an audit plays: the run that it attacks, with which defences, in which order, and within which time."""
