"""A run's folder: what is in it, how it is written, checked and repaired."""
