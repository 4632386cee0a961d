"""A table as HTML, for notebooks: escaped, and without colours, so that it looks well on light and on dark pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape


def html_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    caption: str = "",
    below: Sequence[str] = (),
    bold: Collection[tuple[int, int]] = (),
    left: int = 1,
) -> str:
    """A table whose first columns are text and whose other columns are numbers.

    Args:
        headings: One per column.
        rows: The cells of each row; they are shown as text.
        caption: What stands above.
        below: Sentences that stand below, a line each.
        bold: The places, row and column, of cells that are marked.
        left: How many columns are text.
    """
    sides = ["left" if column < left else "right" for column in range(len(headings))]
    head = "".join(
        f'<th style="text-align:{side}">{_text(one)}</th>' for side, one in zip(sides, headings, strict=True)
    )
    body = ""
    for place, row in enumerate(rows):
        cells = ""
        for column, (side, one) in enumerate(zip(sides, row, strict=True)):
            text = f"<b>{_text(one)}</b>" if (place, column) in bold else _text(one)
            cells += f'<td style="text-align:{side}">{text}</td>'
        body += f"<tr>{cells}</tr>"
    above = f'<div style="margin:0.3em 0"><b>{_text(caption)}</b></div>' if caption else ""
    lines = "".join(f'<div style="margin:0.3em 0;max-width:50em">{_text(one)}</div>' for one in below if one)
    return f"<div>{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{lines}</div>"


def _text(value: object) -> str:
    """A value as text of a page; line ends stay."""
    return escape(str(value)).replace("\n", "<br>")
