"""``fedloom predict``: the classes of new samples, by the model of a site or of a simulated run."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from fedloom.deploy.new_samples import NewSamples
    from fedloom.deploy.saved_model import SavedModel


def predict(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The folder of a site, of a saved model, or of a run (see --client)."),
    ],
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="A CSV, TSV, NPZ or parquet file, a folder of images, or image files."),
    ],
    client: Annotated[
        str | None,
        typer.Option("--client", help="The client of a run whose model predicts, by name or number."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="The model's own class, net.py:Net, if it has one: code that a folder names is not run."
        ),
    ] = None,
    trust: o.Trust = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the predictions to this CSV file.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the probability of every class.")] = False,
    as_json: o.Json = False,
) -> None:
    """Predict the class of each sample, with its probability; or its numbers, its labels, or the tag of each word.

    FOLDER is the folder of a deployed site, of a saved model, or of a simulated run (--client says whose model).

    DATA need no labels. If there are labels, the accuracy (of numbers the mean absolute error) is printed as well.

    Example:  fedloom predict deploy/site-1 new_patients.csv --out predictions.csv
    """
    from fedloom.config.trusted_code import TrustedCode
    from fedloom.deploy.new_samples import read_new_samples
    from fedloom.deploy.saved_model import model_at

    saved = model_at(folder, client, TrustedCode(model, tuple(trust or ())))
    samples = read_new_samples(data, saved)
    outputs, answer = saved.outputs(samples.inputs), ANSWERS[saved.schema.target_kind]
    header = ["row" if isinstance(samples.names[0], int) else "file", *answer.header(saved)]
    header += saved.labels if everything and answer.has_probabilities else ()
    rows = [
        [name, *cells]
        for name, cells in zip(samples.names, answer.cells(saved, samples, outputs, everything), strict=True)
    ]
    result: dict[str, Any] = {"model": saved.about.model_dump(include={"client", "method", "round"})}
    result["samples"], result[answer.metric] = len(samples.names), answer.measure(saved, samples, outputs)
    if out is not None:
        _write(out, header, rows)
        result["written"] = str(out)
    if as_json:
        if out is None:
            own = 1 + len(answer.header(saved))
            result["predictions"] = [_object(header[:own], row, saved) for row in rows]
        say(json.dumps(result))
        return
    if out is None:
        for line in _lines(header, rows, "{:.6g}" if saved.schema.target_kind == "number" else "{:.1%}"):
            say(line)
    else:
        say(f"{out}: {len(rows):,} predictions of {_whose(saved)}")
    if result[answer.metric] is not None:
        say(_sentence(answer.metric, result[answer.metric], len(rows)))
        for name, value in result[answer.metric].get("of_each", {}).items():
            say(f"  {name}: {value:.4g}")


@dataclass(frozen=True)
class Answer:
    """How predictions of one kind of target are written: their columns, their cells, and what they are measured by."""

    columns: tuple[str, ...]
    metric: str
    cells: Callable[[SavedModel, NewSamples, Tensor, bool], list[list[Any]]]
    right: Callable[[Tensor, Tensor], Tensor]
    """How right, or how far away, each prediction is; NaN for what does not count."""
    has_probabilities: bool = True

    def header(self, saved: SavedModel) -> tuple[str, ...]:
        """The columns; of several numbers per sample a column each."""
        several = saved.schema.target_kind == "number" and saved.schema.classes > 1
        return saved.labels if several else self.columns

    def measure(self, saved: SavedModel, samples: NewSamples, outputs: Tensor) -> dict[str, Any] | None:
        """The metric over the samples that have a target, and of each of several numbers; None if there are none."""
        if not bool(samples.labelled.any()):
            return None
        values = self.right(outputs[samples.labelled], samples.targets).double()
        if values.dim() == 2:
            over = {"over": len(values), "value": float(values.mean()), "that": samples.label_source}
            return over | {"of_each": dict(zip(self.header(saved), values.mean(0).tolist(), strict=True))}
        values = values[~values.isnan()]
        counted = {"right": int(values.sum())} if self.metric == "accuracy" else {}
        over = {"over": len(values), "value": float(values.mean()), "that": samples.label_source}
        return {**counted, **over}


def _classes(saved: SavedModel, _: NewSamples, outputs: Tensor, everything: bool) -> list[list[Any]]:
    """The most probable class with its probability and, on request, all probabilities."""
    probabilities = outputs.softmax(1)
    best, places = (column.tolist() for column in probabilities.max(1))
    others = probabilities.tolist() if everything else [()] * len(best)
    return [[saved.labels[place], share, *more] for place, share, more in zip(places, best, others, strict=True)]


def _labels(saved: SavedModel, _: NewSamples, outputs: Tensor, everything: bool) -> list[list[Any]]:
    """The labels that are more probable than not and, on request, the probability of each label."""
    rows = outputs.sigmoid().tolist()
    found = ["|".join(name for name, share in zip(saved.labels, row, strict=True) if share > 0.5) for row in rows]
    return [[labels, *(row if everything else ())] for labels, row in zip(found, rows, strict=True)]


def _tags(saved: SavedModel, samples: NewSamples, outputs: Tensor, everything: bool) -> list[list[Any]]:  # noqa: ARG001
    """The most probable class of each token; a cell of words has as many as it has words."""
    plan, tokens = saved.schema.plan, samples.inputs
    ends = [outputs.shape[1]] * len(outputs)
    if plan is not None and plan.words and not isinstance(tokens, dict):
        ends = (tokens != 0).sum(1).tolist()
    places = outputs.argmax(-1).tolist()
    return [[" ".join(saved.labels[place] for place in row[:end])] for row, end in zip(places, ends, strict=True)]


def _numbers(saved: SavedModel, samples: NewSamples, outputs: Tensor, everything: bool) -> list[list[Any]]:  # noqa: ARG001
    rows: list[list[Any]] = outputs.view(len(outputs), -1).tolist()
    return rows


def _distances(outputs: Tensor, targets: Tensor) -> Tensor:
    """How far away each number is: a row per sample where a sample has several."""
    return (outputs.double().view(targets.shape) - targets).abs()


def _token_hits(outputs: Tensor, targets: Tensor) -> Tensor:
    from fedloom.core.targets import IGNORED

    return (outputs.argmax(-1) == targets).double().masked_fill(targets == IGNORED, float("nan")).flatten()


ANSWERS = {
    "classes": Answer(("class", "probability"), "accuracy", _classes, lambda o, t: o.argmax(1) == t),
    "number": Answer(("number",), "mae", _numbers, _distances, False),
    "labels": Answer(("labels",), "exact_match", _labels, lambda o, t: ((o > 0) == t.bool()).all(1)),
    "tokens": Answer(("tags",), "accuracy", _tags, _token_hits, False),
}
"""How predictions are written, by the kind of target."""


def _object(own: list[str], row: list[Any], saved: SavedModel) -> dict[str, Any]:
    result = dict(zip(own, row[: len(own)], strict=True))
    others = row[len(own) :]
    return result | ({"probabilities": dict(zip(saved.labels, others, strict=True))} if others else {})


def _sentence(metric: str, found: dict[str, Any], count: int) -> str:
    over = found["over"]
    which = f"all {over:,} samples, which" if over == count else f"the {over:,} of {count:,} samples that"
    if metric == "mae":
        return f"mean absolute error {found['value']:.4g} over {which} {found['that']}"
    right = f": {found['right']:,} right" if "right" in found else ""
    return f"{metric.replace('_', ' ')} {found['value']:.1%}{right} over {which} {found['that']}"


def _lines(header: list[str], rows: list[list[Any]], form: str) -> Iterator[str]:
    """The predictions as a table with aligned columns."""
    cells = [header] + [
        [str(name), *(cell if isinstance(cell, str) else form.format(cell) for cell in more)] for name, *more in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _write(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    from fedloom.core.errors import unwritable
    from fedloom.files.atomic_write import write_atomic

    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    try:
        write_atomic(path, text.getvalue().encode())
    except OSError as error:
        raise unwritable(path, error, "choose another path") from None


def _whose(saved: SavedModel) -> str:
    about = saved.about
    owner = f"the model of '{about.client}'" if about.client else "the model that all clients share"
    return f"{owner} ({about.method}, round {about.round})"
