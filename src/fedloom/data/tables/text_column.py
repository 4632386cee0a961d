"""A column of sentences as tokens: words and marks, of which the most frequent ones in the training rows are known.

The tokenizer has no parameters: a text is folded to lower case, and its tokens are runs of letters and digits, and
every other visible character alone. Token 0 is padding, 1 an unknown word, and the known words follow; models leave
padding out. The words may come from a file, so that sites agree on them without showing which ones their data have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from fedloom.core.arguments import argument_error
from fedloom.core.errors import FedloomError
from fedloom.core.settings import check_settings
from fedloom.data.tables.column_plan import ColumnPlan, PlannedColumn, tokens_of
from fedloom.data.tables.tables import Table, as_texts
from fedloom.files.limits import SETTINGS, read_limited


@dataclass(frozen=True)
class Text:
    """A column of sentences (``task.text``).

    Args:
        column: The only input of the table.
        words: How many words are known, the most frequent ones of the training rows.
        length: How many tokens of a text are read, its first ones.
        vocabulary: A file with the known words, one per line, in place of those of the training rows.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    column: str
    words: Annotated[int, Ge(1), Le(1_000_000)] = 10_000
    length: Annotated[int, Ge(1), Le(4096)] = 256
    vocabulary: str | None = None

    def __post_init__(self) -> None:
        check_settings(self, "text")


def text_table(value: object) -> object:
    """The table of settings that a column's name is short for, with an absolute path of the file of words.

    Args:
        value: A name, a table, or the settings themselves; anything else is refused.
    """
    if isinstance(value, str):
        return {"column": value}
    if isinstance(value, Mapping) and isinstance(value.get("vocabulary"), str | Path):
        return {**value, "vocabulary": str(Path(value["vocabulary"]).expanduser().resolve())}
    if value is None or isinstance(value, Mapping | Text):
        return value
    raise argument_error("text", value, "give the name of a column, or a table, for instance {column = 'review'}")


def fit_text(table: Table, inputs: Sequence[str], text: Text, train: np.ndarray) -> ColumnPlan:
    """The plan of a column of sentences, the only input.

    Args:
        inputs: The columns that may be inputs; another one than the text is an error.
        text: The column and how it is read.
        train: The rows that are training samples; the known words are theirs.
    """
    others = [name for name in inputs if name != text.column]
    if others:
        raise FedloomError(
            f"{table.where}: beside the text '{text.column}' there are the inputs {', '.join(others)}, but a model of "
            f"text reads the text alone: leave them out with --ignore {','.join(others)} (ignore=[...])."
        )
    cells = [tokens_of(cell) for cell in as_texts(table.columns[text.column])]
    own = [cells[row] for row in train]
    if not any(own):
        raise FedloomError(f"{table.where}: column '{text.column}' is empty in every training sample.")
    counts = Counter(word for words in own for word in words)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: text.words]
    known = tuple(sorted(frequent)) if text.vocabulary is None else read_vocabulary(Path(text.vocabulary))
    length = min(text.length, max(map(len, own)))
    column = PlannedColumn(
        name=text.column,
        role="text",
        levels=known,
        seen=len(counts) if text.vocabulary is None else 0,
        length=length,
        cut=sum(len(words) > length for words in own),
    )
    return ColumnPlan(columns=(column,))


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """The words of a file, one per line, as the tokenizer makes them.

    Args:
        path: A text file in UTF-8; empty lines count for nothing.
    """
    if not path.is_file():
        raise FedloomError(f"text: the vocabulary {path} does not exist: give a file with a word per line.")
    try:
        lines = read_limited(path, SETTINGS).decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise FedloomError(f"text: the vocabulary {path.name} is not UTF-8 text: save it as UTF-8.") from None
    words = [line.strip() for line in lines]
    for row, word in enumerate(words, start=1):
        if word and tokens_of(word) != [word]:
            raise FedloomError(
                f"text: line {row} of the vocabulary {path.name} is '{word[:40]}', which is no single token in lower "
                f"case: the tokenizer makes {', '.join(tokens_of(word)[:5])} of it."
            )
    found = tuple(sorted({word for word in words if word}))
    if not found:
        raise FedloomError(f"text: the vocabulary {path.name} has no words: give one per line.")
    return found


def text_settings(value: Any) -> Text | None:
    """The settings of a text column from a name, a table or the settings themselves.

    Args:
        value: What a user gave.
    """
    from fedloom.registry.validation import validate

    table = text_table(value)
    made: Text | None = None if table is None else validate(Text, table, "text")
    return made
