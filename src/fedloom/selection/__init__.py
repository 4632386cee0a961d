"""Which clients take part in a round. A selector gets a pool (``fedloom.core.selector``) and returns a choice."""
