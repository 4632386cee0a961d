"""Which clients take part in a round. A selector maps a ``Pool`` to a ``Choice`` (``fedloom.core.selector``)."""
