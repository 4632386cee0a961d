"""Placeholder."""

from fedloom.reproduce.study import Study

STUDIES: tuple[Study, ...] = ()
