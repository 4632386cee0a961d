"""Tables that fit the terminal: where it is too narrow, whole columns are left out, and never a part of a name or a
number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


UNBOUNDED = 10_000


def print_fitting_table(
    console: Console,
    columns: Mapping[str, Sequence[str]],
    spare: Sequence[str],
    caption: str,
    *,
    left: Sequence[str] = (),
    styles: Sequence[str | None] = (),
) -> None:
    """Print a table without the fewest columns that make it fit; below it stands how many more there are.

    Args:
        console: Where it is printed.
        columns: The cells of each column by its heading. Cells and headings are not broken.
        spare: The headings of columns that may be left out, those first that are missed least.
        caption: What stands below the table.
        left: The headings of columns of words; others are numbers, and end at the right.
        styles: The style of each row.
    """
    shown, wanted = dict(columns), 0
    for heading in (None, *spare):
        if heading is not None:
            del shown[heading]
        table = _table(shown, left, styles)
        width = console.measure(table, options=console.options.update(max_width=UNBOUNDED)).maximum
        wanted = wanted or width
        if width <= console.width:
            break
    hidden = len(columns) - len(shown)
    also = f"{hidden} more column{'s' * (hidden > 1)} in a window {wanted} wide, or with --json" if hidden else ""
    table.caption, table.width = "\n".join(filter(None, (caption, also))), width
    console.print(table, crop=False)


def _table(columns: Mapping[str, Sequence[str]], left: Sequence[str], styles: Sequence[str | None]) -> Table:
    from rich.table import Table

    table = Table()
    for heading in columns:
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=True, overflow="fold")
    rows = list(zip(*columns.values(), strict=True))
    for row, style in zip(rows, styles or [None] * len(rows), strict=True):
        table.add_row(*row, style=style)
    return table
