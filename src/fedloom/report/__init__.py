"""Tables, figures and the HTML report of runs: ``table``, ``figures`` and ``html``."""
