"""``fedloom conform``: check methods against closed forms and theorems."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.conformance.claim import ClaimResult


def conform(
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="[METHOD...]", help="Methods, or my_file.py:MyMethod; all by default.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", help="Also check METHOD against the claims about this known method."),
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Check methods against closed forms and theorems, on problems with a known solution.

    With quadratic losses gradient descent is an affine map, so the point to which a method converges can be computed:
    SCAFFOLD and FedDyn converge to the optimum, FedAvg beside it, Ditto, FedU, pFedMe and Per-FedAvg to other points.
    A user-defined METHOD is checked for what every method must do (same bytes with any number of workers and after a
    stop, same result in both executions), which says nothing about its formula; with --like it is checked for the
    claims about the known method too. The exit code is 1 if a claim fails.

    Example:  fedloom conform my_methods.py:MyScaffold --like scaffold
    """
    from fedloom.config.method_spec import method_from
    from fedloom.conformance.suite import claims_for, conform, known_methods, unchecked_formula
    from fedloom.core.errors import FedloomError

    if like is not None and len(methods or []) != 1:
        raise FedloomError("--like compares one method with a known one: name exactly one METHOD with it.")
    for name in methods or []:
        if "+" in name:
            raise FedloomError(f"{name}: conform checks methods; leave out the stages after the +.")
    every = dict(known_methods())
    chosen = {name: every.get(name) or method_from(name) for name in methods} if methods else every
    for name in chosen:
        claims_for(name, like)  # an unknown --like is refused before any work
    from fedloom.cli.terminal.progress import bars

    findings = []
    with bars(as_json, "claim") as progress:
        bar = progress.add_task("", total=sum(len(claims_for(name, like)) for name in chosen), headline="")
        for name, method in chosen.items():
            progress.update(bar, description=name)
            for finding in conform(method, name, like):
                findings.append(finding)
                progress.update(bar, advance=1)
                progress.refresh()
    scope = [sentence for sentence in (unchecked_formula(name, like) for name in chosen) if sentence]
    if as_json:
        say(json.dumps({"claims": [_plain(finding) for finding in findings], "unchecked": scope}))
    else:
        _print(findings, scope)
    if not all(finding.holds for finding in findings):
        raise typer.Exit(1)


def _plain(finding: ClaimResult) -> dict[str, object]:
    """A result as JSON, which has no NaN and no infinity."""
    fields = ("method", "says", "error", "within", "holds", "raised")
    plain: dict[str, object] = {name: getattr(finding, name) for name in fields}
    return plain if math.isfinite(finding.error) else {**plain, "error": None}


def _print(findings: list[ClaimResult], unchecked: list[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from fedloom.cli.terminal.console import printer

    table = Table(title="claims, and their measured errors")
    for name, how in (("method", "left"), ("claim", "left"), ("error", "right"), ("allowed", "right"), ("", "left")):
        table.add_column(name, justify=how, overflow="fold")  # type: ignore[arg-type]
    for finding in findings:
        verdict = Text("holds") if finding.holds else Text("FAILS", "bold red")
        error = "exception" if finding.raised else f"{finding.error:.1e}"
        table.add_row(finding.method, finding.says, error, f"{finding.within:.0e}", verdict)
    failed = sum(not finding.holds for finding in findings)
    console = printer()
    console.print(table)
    for problem in dict.fromkeys(f"{finding.method}: {finding.raised}" for finding in findings if finding.raised):
        console.print(problem)
    console.print(f"{len(findings)} claims, {failed} failed.")
    for sentence in unchecked:
        console.print(sentence)
