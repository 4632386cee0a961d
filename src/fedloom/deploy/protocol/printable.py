"""Texts from elsewhere, as they are shown. No torch: programs that only carry or watch messages show them too."""

from __future__ import annotations


def printable_line(text: str, most: int) -> str:
    """An untrusted text as one short line that is safe in logs and on terminals."""
    plain = "".join(character if character.isprintable() else " " for character in text[:most])
    return plain + "..." * (len(text) > most)
