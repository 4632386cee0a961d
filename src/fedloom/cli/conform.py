"""``fedloom conform``: methods against closed forms and theorems."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fedloom.cli import options as o

if TYPE_CHECKING:
    from fedloom.conformance.claim import ClaimResult


def conform(
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="[METHOD...]", help="Methods, or my_file.py:MyMethod; all by default.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option("--like", help="Check the one METHOD against the claims of this known method as well."),
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Check methods against closed forms and theorems, on problems whose answer is known.

    On clients with quadratic losses gradient descent is an affine map, so where a method must end can be solved for:
    FedAvg beside the optimum, SCAFFOLD and FedDyn in it, Ditto, FedU, pFedMe and Per-FedAvg at points of their own.
    A METHOD of your own is checked for what any method must do (same bytes with any number of workers and after a
    stop, both executions alike) and, with --like, for what the known method promises. Exits with 1 if a claim fails.

    Example:  fedloom conform my_methods.py:MyScaffold --like scaffold
    """
    from fedloom.conformance.suite import claims_for, conform, known_methods
    from fedloom.core.errors import FedloomError
    from fedloom.runs.method_spec import method_from

    if like is not None and len(methods or []) != 1:
        raise FedloomError("--like compares one method with a known one: name exactly one METHOD with it.")
    for name in methods or []:
        if "+" in name:
            raise FedloomError(f"{name}: conform checks methods; leave out the stages behind the +.")
    every = dict(known_methods())
    chosen = {name: every.get(name) or method_from(name) for name in methods} if methods else every
    for name in chosen:
        claims_for(name, like)  # an unknown --like is refused before any work
    from fedloom.cli.progress import bars

    findings = []
    with bars(as_json, "claim") as progress:
        bar = progress.add_task("", total=sum(len(claims_for(name, like)) for name in chosen), headline="")
        for name, method in chosen.items():
            progress.update(bar, description=name)
            for finding in conform(method, name, like):
                findings.append(finding)
                progress.update(bar, advance=1)
                progress.refresh()
    if as_json:
        fields = ("method", "says", "error", "within", "holds")
        typer.echo(json.dumps([{name: getattr(finding, name) for name in fields} for finding in findings]))
    else:
        _print(findings)
    if not all(finding.holds for finding in findings):
        raise typer.Exit(1)


def _print(findings: list[ClaimResult]) -> None:
    from rich.table import Table

    from fedloom.cli.progress import printer

    table = Table(title="what is claimed, and how far from true it is")
    for name, how in (("method", "left"), ("claim", "left"), ("error", "right"), ("allowed", "right"), ("", "left")):
        table.add_column(name, justify=how, overflow="fold")  # type: ignore[arg-type]
    for finding in findings:
        verdict = "holds" if finding.holds else "[bold red]FAILS[/bold red]"
        table.add_row(finding.method, finding.says, f"{finding.error:.1e}", f"{finding.within:.0e}", verdict)
    failed = sum(not finding.holds for finding in findings)
    console = printer()
    console.print(table)
    console.print(f"{len(findings)} claims, {failed} failed.")
