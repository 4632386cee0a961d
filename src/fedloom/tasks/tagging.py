"""A class per word: the model that tags has as many words as the plan of the words' column knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedloom.data.tables.column_plan import ColumnPlan

TAGGER = "tagger"


def with_vocabulary(model: object, options: Mapping[str, Any], plan: ColumnPlan | None) -> dict[str, Any]:
    """The options of a model; those of a tagger have the number of words that the plan knows, unless they say another.

    Args:
        model: The model's name, or what makes it.
        options: The options that the user gave.
        plan: What is done to the columns of the table.
    """
    words = 0 if plan is None else plan.words
    return {"vocabulary": words, **options} if model == TAGGER and words else dict(options)
