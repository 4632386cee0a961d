"""``fedloom predict``: the classes of new samples, by a site's own model or one of a simulated run."""

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

    from fedloom.deploy.site.inputs import Asked
    from fedloom.deploy.site.saved_model import SavedModel


def predict(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A site's folder, a saved model's, or a run's (see --client).")
    ],
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="A CSV, TSV, NPZ or parquet file, a folder of images, or some images."),
    ],
    client: Annotated[
        str | None, typer.Option("--client", help="Whose personalised model of a run, by name (or number).")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the predictions to this CSV file.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Give the probability of every class.")] = False,
    as_json: o.Json = False,
) -> None:
    """Predict the class of each sample, with its probability.

    FOLDER is a site's folder of a deployment, a saved model's, or a simulated run's (--client says whose model).

    DATA need no labels. Where they have some, the accuracy is printed as well.

    Example:  fedloom predict deploy/site-1 new_patients.csv --out predictions.csv
    """
    from fedloom.deploy.site.inputs import read_asked
    from fedloom.deploy.site.saved_model import model_at

    saved = model_at(folder, client)
    asked = read_asked(data, saved)
    probabilities = saved.predict(asked.inputs)
    header, rows = _header(asked, saved, everything), _rows(asked, saved, probabilities, everything)
    told: dict[str, Any] = {"model": saved.about.model_dump(include={"client", "method", "round"})}
    told["samples"], told["accuracy"] = len(asked.inputs), _accuracy(asked, probabilities)
    if out is not None:
        _write(out, header, rows)
        told["written"] = str(out)
    if as_json:
        if out is None:
            told["predictions"] = [_object(row, saved) for row in rows]
        typer.echo(json.dumps(told))
        return
    if out is None:
        for line in _lines(header, rows):
            typer.echo(line)
    else:
        typer.echo(f"{out}: {len(rows):,} predictions of {_whose(saved)}")
    if told["accuracy"] is not None:
        typer.echo(_sentence(told["accuracy"], len(rows)))


def _header(asked: Asked, saved: SavedModel, everything: bool) -> list[str]:
    first = "row" if isinstance(asked.names[0], int) else "file"
    return [first, "class", "probability", *(saved.labels if everything else ())]


def _rows(asked: Asked, saved: SavedModel, probabilities: Tensor, everything: bool) -> list[list[Any]]:
    """What a sample is called, its likeliest class and how likely that is, and where asked for, all the others."""
    best, places = (column.tolist() for column in probabilities.max(1))
    others = probabilities.tolist() if everything else [()] * len(best)
    return [
        [name, saved.labels[place], probability, *all_of_them]
        for name, place, probability, all_of_them in zip(asked.names, places, best, others, strict=True)
    ]


def _object(row: list[Any], saved: SavedModel) -> dict[str, Any]:
    name, label, probability, *others = row
    told = {"row" if isinstance(name, int) else "file": name, "class": label, "probability": probability}
    return told | ({"probabilities": dict(zip(saved.labels, others, strict=True))} if others else {})


def _accuracy(asked: Asked, probabilities: Tensor) -> dict[str, Any] | None:
    """The share of right answers among the samples that have a label; None where none has."""
    labelled = asked.classes >= 0
    if not bool(labelled.any()):
        return None
    right = (probabilities.argmax(1) == asked.classes)[labelled]
    return {"right": int(right.sum()), "over": len(right), "value": float(right.double().mean()), "that": asked.told_by}


def _sentence(accuracy: dict[str, Any], samples: int) -> str:
    over = accuracy["over"]
    which = f"all {over:,} samples, which" if over == samples else f"the {over:,} of {samples:,} samples that"
    return f"accuracy {accuracy['value']:.1%}: {accuracy['right']:,} right over {which} {accuracy['that']}"


def _lines(header: list[str], rows: list[list[Any]]) -> Iterator[str]:
    """The predictions as a table for people, columns as wide as what is in them."""
    cells = [header] + [[str(name), label, *(f"{p:.1%}" for p in shares)] for name, label, *shares in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _write(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    from fedloom.core.errors import FedloomError
    from fedloom.runs.checkpoint import write_whole

    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    try:
        write_whole(path, text.getvalue().encode())
    except OSError as error:
        raise FedloomError(f"{path} cannot be written ({error.strerror}): name another place.") from None


def _whose(saved: SavedModel) -> str:
    about = saved.about
    owner = f"the model of '{about.client}'" if about.client else "the model that all clients share"
    return f"{owner} ({about.method}, round {about.round})"
