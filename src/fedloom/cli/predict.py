"""``fedloom predict``: the classes of new samples, by the model of a site or of a simulated run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o

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
    out: Annotated[Path | None, typer.Option("--out", help="Write the predictions to this CSV file.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the probability of every class.")] = False,
    as_json: o.Json = False,
) -> None:
    """Predict the class of each sample, with its probability.

    FOLDER is the folder of a deployed site, of a saved model, or of a simulated run (--client says whose model).

    DATA need no labels. If there are labels, the accuracy is printed as well.

    Example:  fedloom predict deploy/site-1 new_patients.csv --out predictions.csv
    """
    from fedloom.deploy.new_samples import read_new_samples
    from fedloom.deploy.saved_model import model_at

    saved = model_at(folder, client)
    samples = read_new_samples(data, saved)
    probabilities = saved.predict(samples.inputs)
    header, rows = _header(samples, saved, everything), _rows(samples, saved, probabilities, everything)
    result: dict[str, Any] = {"model": saved.about.model_dump(include={"client", "method", "round"})}
    result["samples"], result["accuracy"] = len(samples.names), _accuracy(samples, probabilities)
    if out is not None:
        _write(out, header, rows)
        result["written"] = str(out)
    if as_json:
        if out is None:
            result["predictions"] = [_object(row, saved) for row in rows]
        typer.echo(json.dumps(result))
        return
    if out is None:
        for line in _lines(header, rows):
            typer.echo(line)
    else:
        typer.echo(f"{out}: {len(rows):,} predictions of {_whose(saved)}")
    if result["accuracy"] is not None:
        typer.echo(_sentence(result["accuracy"], len(rows)))


def _header(samples: NewSamples, saved: SavedModel, everything: bool) -> list[str]:
    first = "row" if isinstance(samples.names[0], int) else "file"
    return [first, "class", "probability", *(saved.labels if everything else ())]


def _rows(samples: NewSamples, saved: SavedModel, probabilities: Tensor, everything: bool) -> list[list[Any]]:
    """Each sample's name, its most probable class with its probability and, on request, all probabilities."""
    best, places = (column.tolist() for column in probabilities.max(1))
    others = probabilities.tolist() if everything else [()] * len(best)
    return [
        [name, saved.labels[place], probability, *all_of_them]
        for name, place, probability, all_of_them in zip(samples.names, places, best, others, strict=True)
    ]


def _object(row: list[Any], saved: SavedModel) -> dict[str, Any]:
    name, label, probability, *others = row
    result = {"row" if isinstance(name, int) else "file": name, "class": label, "probability": probability}
    return result | ({"probabilities": dict(zip(saved.labels, others, strict=True))} if others else {})


def _accuracy(samples: NewSamples, probabilities: Tensor) -> dict[str, Any] | None:
    """The share of right predictions among the samples with a label; None if there are no labels."""
    labelled = samples.classes >= 0
    if not bool(labelled.any()):
        return None
    right = (probabilities.argmax(1) == samples.classes)[labelled]
    return {
        "right": int(right.sum()),
        "over": len(right),
        "value": float(right.double().mean()),
        "that": samples.label_source,
    }


def _sentence(accuracy: dict[str, Any], count: int) -> str:
    over = accuracy["over"]
    which = f"all {over:,} samples, which" if over == count else f"the {over:,} of {count:,} samples that"
    return f"accuracy {accuracy['value']:.1%}: {accuracy['right']:,} right over {which} {accuracy['that']}"


def _lines(header: list[str], rows: list[list[Any]]) -> Iterator[str]:
    """The predictions as a table with aligned columns."""
    cells = [header] + [[str(name), label, *(f"{p:.1%}" for p in shares)] for name, label, *shares in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _write(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    from fedloom.core.errors import FedloomError
    from fedloom.runs.atomic_write import write_atomic

    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    try:
        write_atomic(path, text.getvalue().encode())
    except OSError as error:
        raise FedloomError(f"{path} cannot be written ({error.strerror}): choose another path.") from None


def _whose(saved: SavedModel) -> str:
    about = saved.about
    owner = f"the model of '{about.client}'" if about.client else "the model that all clients share"
    return f"{owner} ({about.method}, round {about.round})"
