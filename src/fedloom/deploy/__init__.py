"""From simulation to machines: the run that was simulated, on Flower's SuperLink and SuperNodes."""
