"""A part of a run as text: its name, and its settings after a colon (``fedprox:mu=0.1``, ``net.py:Net:width=32``)."""

from __future__ import annotations

from typing import Any

from fedloom.registry.nested_keys import set_nested
from fedloom.registry.validation import toml_value


def split_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of ``fedprox:mu=0.1,adaptive=true``; ``file.py:Class`` has no settings.

    A dotted key is a setting of a setting: ``fedseq:inner.name=fedprox,inner.mu=0.1``.
    """
    head, _, tail = spec.rpartition(":")
    if not head or "=" not in tail:
        return spec, {}
    settings: dict[str, Any] = {}
    for pair in split_commas(tail):
        path, _, value = pair.partition("=")
        set_nested(settings, path.strip(), toml_value(value.strip()), spec)
    return head, settings


def split_specs(text: str) -> list[str]:
    """Several parts between commas: ``topk:fraction=0.1,qsgd:levels=4,seed=1`` is two, of which one has two settings.

    A piece ``key=value`` without a name before it belongs to the part before.
    """
    specs: list[str] = []
    for piece in split_commas(text):
        if specs and "=" in piece and ":" not in piece.partition("=")[0]:
            specs[-1] += f",{piece}"
        elif piece:
            specs.append(piece)
    return specs


def split_commas(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        depth += (letter in "([{") - (letter in ")]}") if not quote else 0
        if letter == "," and depth == 0 and not quote:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]
