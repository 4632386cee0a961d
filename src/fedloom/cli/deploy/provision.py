"""``fedloom deploy init``, ``explain`` and ``request``: folders, keys, and what leaves a site, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli import options as o
from fedloom.cli.deploy.options import Days
from fedloom.cli.terminal.say import say


def init(
    run_file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run file that was simulated.")],
    clients: Annotated[str, typer.Option("--clients", help="The sites' names, by client number: site-1,site-2,…")],
    out: Annotated[Path, typer.Option("--out", help="Where the folders are written.")] = Path("deploy"),
    host: Annotated[str, typer.Option("--host", help="The server's name or address for sites.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port that sites connect to.")] = 8443,
    control_port: Annotated[
        int, typer.Option("--control-port", help="The SuperLink's own port, loopback only.")
    ] = 8000,
    evaluator: Annotated[
        str | None, typer.Option("--evaluator", help="A site that only evaluates the shared model and never trains.")
    ] = None,
    proxy: Annotated[
        bool, typer.Option("--proxy/--no-proxy", help="Use nginx as a reverse proxy; without it, for one machine only.")
    ] = True,
    rehearsal: Annotated[
        bool,
        typer.Option("--rehearsal", help="Sites use shares of the run file's data, to try things out."),
    ] = False,
    days: Days = 365,
    requests: Annotated[
        list[Path] | None,
        typer.Option("--request", help="The request of a site that made its keys itself; may be given several times."),
    ] = None,
    approver: Annotated[
        bool, typer.Option("--approver", help="Make a key for somebody who must approve each new run.")
    ] = False,
) -> None:
    """Write a folder for the server and one for each site: keys, certificates, settings, a start script, a README.

    RUN.toml is the run file that was simulated. Give each folder to its participant and to nobody else; keep the
    authority's folder.

    Example:  fedloom deploy init run.toml --clients north,south,west --host fl.example.org
    """
    from fedloom.deploy.provision.folders import init as write

    names, sentences = [name.strip() for name in clients.split(",") if name.strip()], list[str]()
    folders = write(
        run_file, out, names, evaluator=evaluator, host=host, port=port, control_port=control_port, proxy=proxy,
        rehearsal=rehearsal, days=days, requests=requests or (), approver=approver, say=sentences.append,
    )  # fmt: skip
    for folder in folders:
        say(f"{folder}")
    for sentence in sentences:
        say(sentence)
    say("Give each folder to its participant alone; keep the authority's. Each has a README.md.")


def explain(
    run: Annotated[
        Path, typer.Argument(metavar="RUN.toml", help="The run file, or the folder of a site or of the server.")
    ],
    trust: o.Trust = None,
) -> None:
    """Print exactly what leaves a site and what reaches it, per round, in words and bytes.

    For a site's folder it also says what the site's policy allows and refuses. Code that a run file names is run for
    that only with --trust.
    """
    from fedloom.deploy.explanation_text import explain_path

    say(explain_path(run, trust or ()))


def approve(
    request_file: Annotated[
        Path, typer.Argument(metavar="REQUEST", help="approval.request.json of the server's folder.")
    ],
    key: Annotated[
        Path | None, typer.Option("--key", help="The approver's folder; without it the request is shown, not signed.")
    ] = None,
) -> None:
    """Show what a new run would be, and approve it with the approver's key.

    Only where the deployment was made with [b]init --approver[/b]. The approval, approval.json beside the request, goes
    into the server's folder and is good for one run.

    Example:  fedloom deploy approve approval.request.json --key deploy/approver
    """
    from fedloom.deploy.provision.run_approval import approve as sign
    from fedloom.deploy.provision.run_approval import request_lines

    for line in request_lines(request_file):
        say(line)
    if key is not None:
        say(f"{sign(request_file, key)}")


def request(
    folder: Annotated[Path, typer.Argument(help="The site's own folder, new or without keys.")],
    name: Annotated[str | None, typer.Option("--name", help="The site's name, if it is not the folder's.")] = None,
) -> None:
    """Make a site's keys at the site, and a request for its certificate: the operator never sees the keys.

    1. at the site:       fedloom deploy request north      writes its keys and north/request.json
    2. at the operator's: fedloom deploy init … --request request.json, or fedloom deploy add north --request …
    3. at the site:       copy the folder from the operator into north, beside the keys
    """
    from fedloom.deploy.provision.folders import check_name
    from fedloom.deploy.provision.key_request import write_request

    site = folder.resolve().name if name is None else name
    check_name(site)
    path = write_request(folder, site)
    say(f"{path}")
    say(f"Send {path.name} to the operator; client.key and node.key stay here.")
