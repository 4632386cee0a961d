"""The parts that all HTML pages share: the document with its style, cards, sections of figures, and saving.

A page is one file that opens anywhere, without a network: figures are inline SVG, the style is inline CSS, and there
is no script. All text that comes from a config or a user is escaped.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.core.errors import FedloomError
from fedloom.plotting.style import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PIXELS_PER_INCH = 107  # a full-width figure fills the page, and all letters have one size


def save_page(text: str, path: str | Path) -> Path:
    """Write a page atomically and return its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def document(name: str, body: Iterable[str]) -> str:
    """A whole page with the common style, under a heading."""
    style = resources.files("fedloom.report").joinpath("page.css").read_text(encoding="utf-8")
    inside = "\n".join((f"<h1>{escape(name)}</h1>", *body))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(name)}</title>'
        f"<style>\n{style}</style></head>\n<body>\n{inside}\n"
        f"<footer>Written by Fedloom {escape(metadata.version('fedloom'))}.</footer>\n</body></html>\n"
    )


def card(number: str, what: str, over: str) -> str:
    """A card with a number, what it is, and what it is a mean over."""
    return f'<div class="card"><span class="what">{what}</span><b>{escape(number)}</b><span>{escape(over)}</span></div>'


def section(name: str, heading: str, draw: Sequence[Callable[[], Figure]], note: str = "") -> Iterator[str]:
    """A heading and its figures, or the sentence that says why there are none."""
    yield f'<h2 id="{name}">{heading}</h2>'
    pictures = []
    reason = ""
    for number, picture in enumerate(draw):
        try:
            figure = picture()
        except FedloomError as why:
            reason = str(why)
            continue
        width = f"max-width: {PIXELS_PER_INCH * figure.get_figwidth():.0f}px"
        pictures.append(f'<figure style="{width}">{svg(figure, f"{name}-{number}", heading)}</figure>')
    if not pictures:
        yield f'<p class="note">{escape(reason)}</p>'
        return
    yield f'<p class="note">{escape(note)}</p>' if note else ""
    yield f'<div class="grid">{"".join(pictures)}</div>' if len(draw) > 1 else pictures[0]


def config_toml(config: Mapping[str, Any]) -> str:
    """A config as TOML."""
    import tomli_w

    return tomli_w.dumps(_drop_none(config))


def _drop_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _drop_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_drop_none(inner) for inner in value if inner is not None]
    return value
