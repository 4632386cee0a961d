"""Conformance: every method against a closed form or a theorem, never against itself."""
