"""Federated learning methods, one file each, under the names of ``fedloom list methods``."""
