"""The page of ``fedloom flows serve``: one document with its style, its script and what it needs to know of the model.

The content security policy lets a browser run no script but ours, by its hash, and talk to nobody but this server.
Everything that comes from a model is JSON in the page, never HTML.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any

from fedloom.tasks.flows.drawing.kind_families import FAMILIES, family
from fedloom.tasks.flows.learning.recommender import Recommender

MOST_WORDS = 400
"""The most words of an attribute that the page offers while somebody types."""


def builder_page(recommender: Recommender) -> str:
    """The page for a model.

    Args:
        recommender: The model, ready to answer.
    """
    data = json.dumps(page_data(recommender), ensure_ascii=True).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Build a flow</title>'
        f"<style>\n{_asset('builder.css')}</style></head>\n<body>\n{_asset('builder.html')}"
        f'<script type="application/json" id="model">{data}</script>\n<script>{_script()}</script>\n</body></html>\n'
    )


def security_policy() -> str:
    """The content security policy of the page and of every answer."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        f"frame-ancestors 'none'; script-src 'sha256-{digest}'"
    )


def page_data(recommender: Recommender) -> dict[str, Any]:
    """What the page knows of a model: whose it is, its dialect, and the words that it offers.

    Args:
        recommender: The model, ready to answer.
    """
    saved, dialect = recommender.saved, recommender.dialect
    kinds = sorted({*saved.schema.node["kind"].tokens, *_single_names(saved.classes)} - {"", dialect.start})
    attributes = {name: list(v.tokens[:MOST_WORDS]) for name, v in saved.schema.node.items() if name != "kind"}
    return {
        "client": saved.client,
        "method": saved.method,
        "dialect": dialect.name,
        "start": dialect.start,
        "ends": sorted(dialect.ends),
        "plain": dialect.plain,
        "kinds": kinds,
        "labels": _offered_labels(saved.schema.edge["label"].tokens, dialect.plain),
        "attributes": attributes,
        "families": {kind: family(kind) for kind in (dialect.start, *kinds)},
        "order": list(FAMILIES),
    }


def _offered_labels(labels: tuple[str, ...], plain: str) -> list[str]:
    """The labels to choose from. Where the plain one has a name, its outputs come first, and others without number."""
    if not plain:
        return [label for label in labels if label][:MOST_WORDS]
    ways = [label for label in labels if label and "+" not in label]
    main = [label for label in ways if label.partition(" ")[0] == plain]
    return sorted(main, key=len) + [label for label in ways if label not in main and " " not in label][:MOST_WORDS]


def _single_names(classes: tuple[str, ...]) -> list[str]:
    """The kinds that classes stand for: a bucket has no kind, or those of its organisation."""
    return [kind for name in classes for kind in name.split(" or ") if not kind.startswith("bucket ")]


@cache
def _script() -> str:
    return f"\n{_asset('builder.js')}"


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
