"""The common style of all figures: few colour-blind safe colours, names at the ends of lines, no frame.

Figures are plain ``Figure`` objects, never pyplot's global ones. In SVG the colours of text, grid and background
become CSS variables, so that a figure follows its page into dark mode and print.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from fedloom.core.arguments import path_from
from fedloom.core.errors import FedloomError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1b1f24", "#5b636d", "#dfe3e8", "#fffffe"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
# Okabe and Ito's palette; its yellow is too faint for a line on white paper.
PALETTE = (BLUE, ORANGE, GREEN, "#cc79a7", "#e69f00", "#56b4e9", MUTED)
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)))
LONGEST_NAME = 22
TOPMOST = 0.96  # where the first name beside a panel may stand, as a fraction of the panel
LINE = 0.19  # inches from one line of text to the next

_RC: Any = {
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,  # a name with a dollar sign is a name
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}

P = ParamSpec("P")
R = TypeVar("R")


def with_style(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that draws: it uses this style, whatever the user's matplotlib settings are."""

    @wraps(draw)
    def draw_in_style(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib as mpl

        with mpl.rc_context({**mpl.rcParamsDefault, "backend": mpl.rcParams["backend"], **_RC}):
            return draw(*args, **kwargs)

    return draw_in_style


def new_figure(
    width: float,
    height: float,
    *,
    left: float = 0.6,
    right: float = 0.1,
    top: float = 0.5,
    bottom: float = 0.5,
    between: float = 1.0,
) -> Figure:
    """An empty figure with fixed margins, all in inches, that can be saved without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from fedloom.plotting.notebook_figure import NotebookFigure

    figure = NotebookFigure(figsize=(width, height))
    FigureCanvasAgg(figure)
    figure.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - top / height)
    figure.subplots_adjust(wspace=2 * between / max(0.1, width - left - right - between))
    return figure


def name_width(names: Iterable[str]) -> float:
    """The inches that the longest of these names needs beside a panel."""
    return 0.3 + 0.085 * max((len(shorten(name)) for name in names), default=0)


def colour(index: int) -> str:
    """The colour of the method with this index in a comparison, the same in every figure."""
    return PALETTE[index % len(PALETTE)]


def dash(index: int) -> Any:
    """The line style that tells methods apart when there are more of them than colours."""
    return DASHES[index // len(PALETTE) % len(DASHES)]


def blue_colormap() -> Colormap:
    """From nothing to blue: for shares and counts, where blank is none."""
    from matplotlib.colors import ListedColormap

    red, green, blue = (int(BLUE[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return ListedColormap([(red, green, blue, step / 31) for step in range(32)])


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """A name cut to fit beside a panel."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def set_heading(axes: Axes, title: str, note: str) -> None:
    """Set a panel's title and, below it in small print, what its marks mean."""
    axes.set_title(title, pad=19)
    axes.annotate(
        note, (0, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points", color=MUTED, fontsize=8.5
    )


def show_percent(axis: Any) -> None:
    """Show fractions as per cent."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}"))


def widen_limits(limits: tuple[float, float], least: float = 0.1) -> tuple[float, float]:
    """Axis limits that span at least ``least``, so that tiny differences do not look large."""
    missing = max(0.0, least - (limits[1] - limits[0])) / 2
    return limits[0] - missing, limits[1] + missing


def show_whole_numbers(axis: Any, most: int = 8) -> None:
    """Put ticks at whole numbers, with commas between thousands."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def spread_apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Places in [0, 1] as near as possible to the wanted ones with at least ``gap`` between any two.

    Least squares under order constraints: pool adjacent violators of the places less their share of gaps.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    gap = min(gap, 1 / max(1, len(wanted) - 1))
    blocks: list[list[float]] = []  # [mean, size]
    for rank, i in enumerate(order):
        blocks.append([wanted[i] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    level = [mean for mean, size in blocks for _ in range(int(size))]
    span = max(0.0, 1 - (len(wanted) - 1) * gap)
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = min(max(level[rank], 0.0), span) + rank * gap
    return places


def name_ends(axes: Axes, ends: Sequence[tuple[str, str, float, float]]) -> None:
    """Write each line's name right of the panel, joined to the line's end (name, colour, x, y)."""
    left = axes.get_xlim()[0]
    inside = (axes.transScale + axes.transLimits).transform([(max(x, left), y) for *_, x, y in ends])
    figure = axes.get_figure(root=True)
    height = axes.get_position().height * (figure.get_figheight() if figure else 1)
    places = [TOPMOST * y for y in spread_apart([float(y) / TOPMOST for _, y in inside], LINE / height / TOPMOST)]
    for (name, hue, *_), (x, y), place in zip(ends, inside, places, strict=True):
        leader: dict[str, Any] = {
            "color": hue,
            "linewidth": 0.8,
            "linestyle": (0, (1, 2)),
            "clip_on": False,
            "label": "_leader",
        }
        axes.plot([x + 0.008, 1.0, 1.025], [y, y, place], transform=axes.transAxes, **leader)
        axes.text(1.035, place, shorten(name), color=hue, va="center", transform=axes.transAxes)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Save a figure to a file, whose ending names the format."""
    try:
        figure.savefig(path_from("path", path), bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise FedloomError(f"{path} cannot be written ({error}): choose another path or format.") from None


def svg(figure: Figure, name: str, description: str) -> str:
    """A figure as an SVG element for a page; ``name`` keeps the ids of a page's figures apart."""
    import html

    import matplotlib as mpl

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the reader's browser has the glyphs
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="none")
    text = buffer.getvalue()
    text = re.sub(r'(<(?:g|image)\b[^>]*?) id="[^"]*"', r"\1", text[text.index("<svg") :])
    text = re.sub(r'^(<svg[^>]*?) width="[\d.]+pt" height="[\d.]+pt"|^(<svg[^>]*?) height="[^"]*"', r"\1\2", text)
    for colour_, variable in ((INK, "ink"), (MUTED, "muted"), (GRID, "grid"), (PAPER, "paper")):
        text = text.replace(colour_, f"var(--{variable})")
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(description)}"', 1)
