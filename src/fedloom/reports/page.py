"""The parts that all HTML pages share: the document with its style, cards, sections of figures, and saving.

A page is one file that opens anywhere, without a network: figures are inline SVG, style and script are inline. All text
that comes from a config or a user is escaped, and the page's content security policy lets a browser run no script but
ours, load nothing and send nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.core.errors import FedloomError, unwritable
from fedloom.plotting.style import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PIXELS_PER_INCH = 107  # a full-width figure fills the page, and all letters have one size


def save_page(text: str, path: str | Path) -> Path:
    """Write a page atomically and return its path."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise unwritable(path, error, "name another file") from None
    return path


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def document(name: str, body: Iterable[str], data: str | None = None, style: str = "") -> str:
    """A whole page with the common style, under a heading.

    Args:
        name: The title.
        body: The inside of the page, as HTML.
        data: The JSON that ``curves.js`` and ``clients.js`` make interactive; without it the page has no script.
        style: More style than the common one.
    """
    inside = (f"<h1>{escape(name)}</h1>", *body, f"<footer>Written by Fedloom {escape(_version())}.</footer>")
    if data is None:
        return html_page(name, inside, style=style)
    code = "\n".join(map(asset, ("downloads.js", "charts.js", "curves.js", "clients.js")))
    return html_page(name, inside, Script(charting_code(code), data), style)


@dataclass(frozen=True)
class Script:
    """The one script of a page.

    Args:
        code: Its source.
        data: The JSON that it finds in the element ``explore-data``, as :func:`script_json` writes it.
        connects_to: Where it may fetch from, as a source of the content security policy; nowhere by default.
    """

    code: str
    data: str
    connects_to: str = ""

    @property
    def policy(self) -> str:
        """What the content security policy says of this script."""
        digest = base64.b64encode(hashlib.sha256(self.code.encode()).digest()).decode()
        return f"; script-src 'sha256-{digest}'" + (f"; connect-src {self.connects_to}" if self.connects_to else "")


def html_page(name: str, body: Iterable[str], script: Script | None = None, style: str = "") -> str:
    """A whole page: the common style, its content security policy, and perhaps one script.

    Args:
        name: The title of the window.
        body: The inside of the page, as HTML.
        script: The script; None for a page without one.
        style: More style than the common one.
    """
    charts = asset("vendor/uPlot.min.css") if script else ""
    end = ""
    if script is not None:
        end = f'<script type="application/json" id="explore-data">{script.data}</script>\n'
        end += f"<script>{script.code}</script>\n"
    inside = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{page_policy(script)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(name)}</title>'
        f"<style>\n{asset('page.css')}{charts}{style}</style></head>\n<body>\n{inside}\n{end}</body></html>\n"
    )


def page_policy(script: Script | None) -> str:
    """The content security policy of a page: no script but this one, nothing loaded, nothing sent elsewhere."""
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:{script.policy if script else ''}"


def charting_code(code: str) -> str:
    """The source of a script that draws charts: uPlot with its licence, what all scripts share, then the script."""
    licence, library = asset("vendor/uPlot.LICENSE"), asset("vendor/uPlot.iife.min.js")
    return f"\n/*! uPlot\n{licence}\n*/\n{library}\n{asset('page.js')}\n{code}"


def script_json(value: Any) -> str:
    """A value as JSON that is safe inside a ``script`` element: no ``<`` can end it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def asset(name: str) -> str:
    """A file of this folder that becomes part of pages."""
    return resources.files("fedloom.reports").joinpath(name).read_text(encoding="utf-8")


def _version() -> str:
    return metadata.version("fedloom")


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
        drawn = svg(figure, f"{name}-{number}", heading)
        pictures.append(f'<figure style="{width}" data-name="{name}-{number}">{drawn}</figure>')
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
