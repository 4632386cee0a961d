"""A picture of a flow: layers from the top, cards coloured by the family of their kind, labels on the edges.

A card shows its node's kind and operation, and below them its name. Edges that lead on are grey, edges that lead back
up are blue, attachments and messages are dashed. The picture has the style of all figures; the ending of the file name
chooses the format (``.png``, ``.svg``, ``.pdf``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.core.errors import FedloomError, unwritable
from fedloom.plotting.style import BLUE, GREEN, INK, MUTED, ORANGE, PAPER, new_figure, with_style
from fedloom.tasks.flows.drawing.kind_families import FAMILIES, family, short_kind
from fedloom.tasks.flows.drawing.layered_layout import FlowLayout, layered_layout
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.rules import Dialect, validate_draft

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NODES, MOST_EDGES = 400, 1200
ENDINGS = (".png", ".svg", ".pdf")
COLOURS = dict(zip(FAMILIES, (INK, "#e69f00", BLUE, GREEN, "#7b8794", "#56b4e9", "#cc79a7", ORANGE), strict=True))
LINE = "#8a939d"
DASHES: Any = (0, (3, 2))
CARD_HEIGHT, LAYER_GAP = 0.46, 0.46  # inches
NARROWEST, WIDEST = 1.35, 2.75  # inches of a card
CARD_GAP, EDGE_WIDTH = 0.3, 0.32  # inches between two cards, and for an edge that passes between them
MARGIN, HEADER, FOOTER = 0.3, 0.75, 0.62
KIND_SIZE, NAME_SIZE, LABEL_SIZE = 8.6, 7.6, 7.4  # points

Point = tuple[float, float]


def draw_flow(flow: Flow, dialect: Dialect, path: str | Path | None = None) -> Figure:
    """Draw a flow, finished or not.

    Args:
        flow: the flow to draw.
        dialect: its dialect; a flow that breaks one of its rules is refused.
        path: the file to write the picture to, in the format of its ending (.png, .svg or .pdf); None: no file.
    """
    if path is not None and Path(path).suffix.lower() not in ENDINGS:
        raise FedloomError(f"{path}: the name of a picture must end with one of {', '.join(ENDINGS)}.")
    validate_draft(flow, dialect)
    if len(flow.nodes) > MOST_NODES:
        raise FedloomError(f"the flow has {len(flow.nodes):,} nodes; a picture can show at most {MOST_NODES}.")
    if len(flow.edges) > MOST_EDGES:
        raise FedloomError(f"the flow has {len(flow.edges):,} edges; a picture can show at most {MOST_EDGES}.")
    figure = _draw(flow, dialect)
    if path is not None:
        import matplotlib as mpl

        undated = {"Date": None} if Path(path).suffix.lower() == ".svg" else None
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "flow"}):
            try:
                figure.savefig(path, dpi=150, metadata=undated)
            except OSError as error:
                raise unwritable(path, error, "choose another path") from None
    return figure


@with_style
def _draw(flow: Flow, dialect: Dialect) -> Figure:
    cards = {node.id: _Card(node) for node in flow.nodes}
    widths = [cards[node.id].width + CARD_GAP for node in flow.nodes]
    layout = layered_layout(flow, dialect.start, widths, EDGE_WIDTH)
    sides = [x + width / 2 for (x, _), width in zip(layout.positions.values(), widths, strict=True)]
    across = max(sides + [x + EDGE_WIDTH / 2 for route in layout.routes for x, _ in route[1:-1]])
    title, note = drawable(brief(flow.name, 80)) or "A flow", _summary(flow, dialect)
    marks = _legend_entries(flow, layout)
    keys = sum(0.36 + inches(text, NAME_SIZE) for text, _, _ in marks)
    inner = max(across, inches(title, 11.5, bold=True), inches(note, 8.2), keys)
    layers = 1 + max(layer for _, layer in layout.positions.values())
    width, height = inner + 2 * MARGIN, HEADER + layers * CARD_HEIGHT + (layers - 1) * LAYER_GAP + FOOTER
    figure = new_figure(width, height, left=0, right=0, top=0, bottom=0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    axes.text(MARGIN, 0.3, title, fontsize=11.5, fontweight="bold", va="center")
    axes.text(MARGIN, 0.5, note, fontsize=8.2, color=MUTED, va="center")
    page = _Page(axes, (width - across) / 2)
    for edge, route, back in zip(flow.edges, _routes(flow, layout, page, cards), layout.leads_back, strict=True):
        page.draw_edge(edge, route, back)
    for name, place in layout.positions.items():
        page.draw_card(cards[name], *place)
    _draw_legend(axes, marks, height)
    return figure


class _Card:
    """The texts on a node's card, and its width."""

    def __init__(self, node: Node) -> None:
        attributes = node.attributes
        self.family = family(node.kind)
        kind, _, what = short_kind(node.kind).partition(":")
        self.kind = drawable(brief(kind, 40)) or "?"
        detail = what or attributes.get("operation") or attributes.get("subkind", "").rpartition(".")[2]
        self.detail = drawable(brief(detail, 24))
        name = drawable(brief(attributes.get("name") or ("" if node.id.isdigit() else node.id), 60))
        self.name = "" if name.lower().rstrip("0123456789 ") == self.kind.lower() else name
        self.start = node.kind == "Start"
        first = inches(self.kind, KIND_SIZE, bold=True) + (
            0.07 + inches(self.detail, NAME_SIZE) if self.detail else 0.0
        )
        self.pill = self.family == "start or end"
        wanted = 0.34 + max(first, min(inches(self.name, NAME_SIZE), 1.7))
        self.width = min(WIDEST, max(0.95 if self.pill else NARROWEST, wanted))


@dataclass
class _Page:
    """Draws cards, edges and labels; coordinates are inches from the left and from the top."""

    axes: Axes
    left: float
    labels: list[tuple[float, float, float]] = field(default_factory=list)

    def top(self, layer: int) -> float:
        return HEADER + layer * (CARD_HEIGHT + LAYER_GAP)

    def draw_card(self, card: _Card, across: float, layer: int) -> None:
        from matplotlib.patches import FancyBboxPatch

        colour = COLOURS[card.family]
        pill, width = card.pill, card.width
        left, top = self.left + across - width / 2, self.top(layer)
        fill = (INK if card.start else PAPER) if pill else _tint(colour)
        style = f"round,pad=0,rounding_size={CARD_HEIGHT / 2 if pill else 0.07}"
        box = FancyBboxPatch(
            (left, top),
            width,
            CARD_HEIGHT,
            boxstyle=style,
            facecolor=fill,
            edgecolor=colour,
            linewidth=1.4 if pill else 1.0,
        )
        self.axes.add_patch(box)
        middle = top + CARD_HEIGHT / 2
        rise = 0.085 if card.name else 0.0
        room = width - 0.26
        if pill:
            ink, quiet = (PAPER, "#c9ced4") if card.start else (INK, MUTED)
            at = left + width / 2
            self._write(at, middle - rise, card.kind, KIND_SIZE, ink, room, bold=True, ha="center")
            self._write(at, middle + 0.085, card.name, NAME_SIZE, quiet, room, ha="center")
            return
        strip = FancyBboxPatch(
            (left, top), 0.07, CARD_HEIGHT, boxstyle="square,pad=0", facecolor=colour, edgecolor="none", clip_path=box
        )
        self.axes.add_patch(strip)
        strip.set_clip_path(box)
        at = left + 0.16
        used = self._write(at, middle - rise, card.kind, KIND_SIZE, INK, room, bold=True)
        if card.detail and room - used > 0.25:
            self._write(at + used + 0.07, middle - rise, card.detail, NAME_SIZE, MUTED, room - used - 0.07)
        self._write(at, middle + 0.085, card.name, NAME_SIZE, MUTED, room)

    def _write(
        self, x: float, y: float, text: str, size: float, colour: str, room: float, bold: bool = False, ha: str = "left"
    ) -> float:
        text = cut_to_width(text, size, room, bold)
        weight = "bold" if bold else "normal"
        self.axes.text(x, y, text, fontsize=size, color=colour, fontweight=weight, ha=ha, va="center_baseline")
        return inches(text, size, bold)

    def draw_edge(self, edge: Edge, route: Sequence[Point], back: bool) -> None:
        from matplotlib.patches import PathPatch, Polygon
        from matplotlib.path import Path as Curve

        points, codes = [route[0]], [Curve.MOVETO]
        for (x0, y0), (x1, y1) in zip(route[::2], route[1::2], strict=True):
            if points[-1] != (x0, y0):
                points.append((x0, y0))
                codes.append(Curve.LINETO)
            middle = (y0 + y1) / 2
            points += [(x0, middle), (x1, middle), (x1, y1)]
            codes += [Curve.CURVE4] * 3
        colour = BLUE if back else LINE
        x, y = route[-1]
        behind = y - (0.075 if y > route[-2][1] else -0.075)  # the line ends where the arrow's head begins
        points[-1] = (x, behind)
        dashes = DASHES if _is_attachment(edge) else "-"
        line = PathPatch(
            Curve(points, codes), facecolor="none", edgecolor=colour, linewidth=1.2, linestyle=dashes, zorder=0.9
        )
        self.axes.add_patch(line)
        self.axes.add_patch(
            Polygon([(x, y), (x - 0.04, behind), (x + 0.04, behind)], facecolor=colour, edgecolor="none")
        )
        self._draw_label(_label(edge), route[0], route[1], BLUE if back else MUTED)

    def _draw_label(self, text: str, start: Point, end: Point, colour: str) -> None:
        """Write a label near its edge's source, at the first place that no other label has taken."""
        if not text:
            return
        half = inches(text, LABEL_SIZE) / 2 + 0.03
        for t in (0.45, 0.6, 0.3, 0.75):
            x = start[0] + (3 - 2 * t) * t * t * (end[0] - start[0])
            y = start[1] + (t + t * (1 - t) * (1 - 2 * t) / 2) * (end[1] - start[1])
            if all(abs(x - a) > half + b or abs(y - c) > 0.13 for a, b, c in self.labels):
                break
        self.labels.append((x, half, y))
        box: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8}
        self.axes.text(x, y, text, fontsize=LABEL_SIZE, color=colour, ha="center", va="center", bbox=box)


def _routes(flow: Flow, layout: FlowLayout, page: _Page, cards: Mapping[str, _Card]) -> list[list[Point]]:
    """For every edge the points where it enters and leaves each gap between two layers, from source to target.

    Edges leave and enter a card side by side, ordered by where they go, so that none hides another.
    """
    sides: dict[tuple[str, bool], list[tuple[float, int]]] = {}
    for number, (edge, route) in enumerate(zip(flow.edges, layout.routes, strict=True)):
        down = route[-1][1] > route[0][1]
        sides.setdefault((edge.source, down), []).append((route[1][0], number))
        sides.setdefault((edge.target, not down), []).append((route[-2][0], number))
    ports: dict[tuple[str, int], float] = {}
    for (name, _), leaving in sides.items():
        step = min(0.24, 0.6 * cards[name].width / len(leaving))
        for place, (_, number) in enumerate(sorted(leaving)):
            ports[name, number] = (place - (len(leaving) - 1) / 2) * step
    found = []
    for number, (edge, route) in enumerate(zip(flow.edges, layout.routes, strict=True)):
        across = [page.left + x for x, _ in route]
        across[0] += ports[edge.source, number]
        across[-1] += ports[edge.target, number]
        points: list[Point] = []
        for i in range(len(route) - 1):
            here, there = route[i][1], route[i + 1][1]
            upper = page.top(min(here, there)) + CARD_HEIGHT
            lower = page.top(max(here, there))
            points.append((across[i], upper if there > here else lower))
            points.append((across[i + 1], lower if there > here else upper))
        found.append(points)
    return found


def _is_attachment(edge: Edge) -> bool:
    """Whether an edge gives its target something to work with instead of leading on to it."""
    return edge.label.startswith(("ai_", "message", "association"))


def _label(edge: Edge) -> str:
    """An edge's label as it is drawn; n8n's ``main``, the label of plain edges, is left out."""
    label = "" if edge.label == "main" else edge.label.replace("ai_", "")
    return drawable(brief(label, 24))


def _summary(flow: Flow, dialect: Dialect) -> str:
    return f"{dialect.name}: {len(flow.nodes)} nodes, {len(flow.edges)} edges"


def _legend_entries(flow: Flow, layout: FlowLayout) -> list[tuple[str, str, str]]:
    """The entries of the legend: text, colour and mark of what the picture shows."""
    there = {family(node.kind) for node in flow.nodes}
    marks = [(name, COLOURS[name], "card") for name in FAMILIES[1:] if name in there]
    if any(map(_is_attachment, flow.edges)):
        marks.append(("attached or message", LINE, "dashes"))
    if any(layout.leads_back):
        marks.append(("leads back", BLUE, "line"))
    return marks


def _draw_legend(axes: Axes, marks: Sequence[tuple[str, str, str]], height: float) -> None:
    from matplotlib.patches import Rectangle

    x, y = MARGIN, height - 0.26
    for text, colour, mark in marks:
        if mark == "card":
            axes.add_patch(Rectangle((x, y - 0.055), 0.11, 0.11, facecolor=colour, edgecolor="none"))
        else:
            axes.plot(
                [x - 0.03, x + 0.13], [y, y], color=colour, linewidth=1.4, linestyle="-" if mark == "line" else DASHES
            )
        axes.text(x + 0.17, y, text, fontsize=NAME_SIZE, color=MUTED, va="center_baseline")
        x += 0.36 + inches(text, NAME_SIZE)


def _tint(colour: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(0.89 + 0.11 * part for part in to_rgb(colour))


def inches(text: str, points: float, bold: bool = False) -> float:
    """The width of a text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return float(width) / 72


def cut_to_width(text: str, points: float, room: float, bold: bool) -> str:
    """A text, cut to the room there is."""
    if inches(text, points, bold) <= room:
        return text
    while text and inches(text + "…", points, bold) > room:
        text = text[:-1]
    return text.rstrip() + "…"


def drawable(text: str) -> str:
    """A text without the characters that the font lacks (mostly emoji)."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    return " ".join("".join(c for c in text if font.get_char_index(ord(c))).split())
