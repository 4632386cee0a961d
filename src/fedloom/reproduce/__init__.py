"""Experiments of papers and theses as commands: ``fedloom reproduce NAME``."""
