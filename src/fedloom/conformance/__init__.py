"""Conformance: check every method against a closed form or a theorem, never against its own output."""
