"""``fedloom deploy``: run a simulated configuration on real machines, over Flower."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.say import say

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Folder = Annotated[Path, typer.Argument(help="The participant's folder, made by fedloom deploy init.")]
Deployment = Annotated[Path, typer.Argument(help="The folder that fedloom deploy init wrote, or the server's folder.")]
Site = Annotated[str, typer.Argument(metavar="SITE", help="The site's name.")]
Authority = Annotated[
    Path | None, typer.Option("--authority", help="The authority's folder, if it is not beside the server's.")
]
Days = Annotated[int, typer.Option("--days", help="How long the certificates are valid.")]


@app.callback()
def deploy() -> None:
    """Run a simulated configuration on real machines: a server, and sites that keep their data.

    1. [b]fedloom deploy init run.toml --clients site-1,site-2,site-3[/b]   a folder per participant
    2. [b]fedloom deploy explain run.toml[/b]   what leaves a site, in words and bytes
    3. [b]fedloom deploy server deploy/server[/b]   on the server's machine
    4. [b]fedloom deploy client deploy/site-1[/b]   at each site
    5. [b]fedloom deploy run deploy/server[/b]   the run; it writes the same folder as a simulation
    """


@app.command()
def init(
    run_file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run file that was simulated.")],
    clients: Annotated[str, typer.Option("--clients", help="The sites' names, by client number: site-1,site-2,…")],
    out: Annotated[Path, typer.Option("--out", help="Where the folders are written.")] = Path("deploy"),
    host: Annotated[str, typer.Option("--host", help="The server's name or address for sites.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port that sites connect to.")] = 8443,
    control_port: Annotated[
        int, typer.Option("--control-port", help="The SuperLink's own port, loopback only.")
    ] = 8000,
    site_port: Annotated[
        int, typer.Option("--site-port", help="Not used any more: a site's programs talk over a Unix socket.")
    ] = 9094,
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
) -> None:
    """Write a folder for the server and one for each site: keys, certificates, settings, a start script, a README.

    RUN.toml is the run file that was simulated. Give each folder to its participant and to nobody else; keep the
    authority's folder.

    Example:  fedloom deploy init run.toml --clients north,south,west --host fl.example.org
    """
    from fedloom.deploy.provision.folders import init as write

    names = [name.strip() for name in clients.split(",") if name.strip()]
    folders = write(
        run_file, out, names, evaluator=evaluator, host=host, port=port, control_port=control_port, proxy=proxy,
        rehearsal=rehearsal, days=days, first_site_port=site_port, requests=requests or (),
    )  # fmt: skip
    for folder in folders:
        say(f"{folder}")
    say("Give each folder to its participant alone; keep the authority's. Each has a README.md.")


@app.command()
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


@app.command()
def server(folder: Folder) -> None:
    """Run a deployment's server: Flower's SuperLink on loopback, behind nginx. Ctrl-C ends it."""
    from fedloom.deploy.operate.supervise import run_server

    _run_until_stopped(lambda: run_server(folder, _say))


@app.command()
def client(folder: Folder) -> None:
    """Run a site: check its data, connect, train on request. Ctrl-C ends it; its state stays on its disk."""
    from fedloom.deploy.operate.supervise import run_site

    _run_until_stopped(lambda: run_site(folder, _say))


@app.command()
def run(
    folder: Folder,
    new: Annotated[
        bool, typer.Option("--new", help="Begin a new run, with the sites of now; the last one's folder is kept.")
    ] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Start the run of a deployment whose server and sites are up, or continue it.

    Shows the same progress as a simulation and writes the same folder, in the server's folder, with a report. Ctrl-C
    stops watching; the run goes on, and the same command watches it again. [b]fedloom deploy stop[/b] ends it.
    """
    from fedloom.cli.progress import bars, observer
    from fedloom.deploy.operate.commands import run as play
    from fedloom.deploy.protocol.blueprint import Blueprint
    from fedloom.deploy.settings import load_server
    from fedloom.metrics.registry import make_metrics
    from fedloom.runs.score import score_from

    load_server(folder)
    config = Blueprint.load(folder).config
    score = score_from(make_metrics(tuple(config.task.metrics)))
    try:
        with bars(quiet or as_json) as progress:
            show = observer(progress, folder.resolve().parent.name, config.rounds, score)
            done = play(folder, _say if not (quiet or as_json) else lambda _: None, show, new)
    except KeyboardInterrupt:
        say(f"the run goes on: watch it again with  fedloom deploy run {folder}", err=True)
        raise
    _report(done, as_json)


@app.command()
def status(
    folder: Folder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again when it changes, until Ctrl-C; plain lines in a pipe.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Show the state of a participant: its programs, and at the server the sites, the run and excluded answers.

    [b]fedloom watch[/b] shows the same in a browser.
    """
    from fedloom.cli.status_view import show_status, status_lines, status_values
    from fedloom.deploy.participant_folder import role_of
    from fedloom.watch.status_reader import StatusReader

    role_of(folder)
    reader = StatusReader(folder)
    if watch:
        _run_until_stopped(lambda: show_status(reader, as_json))
        return
    found = reader.read()
    for line in [json.dumps(status_values(found))] if as_json else status_lines(found):
        say(line)


@app.command()
def stop(folder: Folder) -> None:
    """Stop a participant's programs, and at the server its run. Everything can be continued later."""
    from fedloom.deploy.operate.commands import stop as end

    say("stopped" if end(folder) else "nothing was running")


@app.command()
def audit(folder: Folder, as_json: o.Json = False) -> None:
    """Print who did what and when in a participant's folder, and check that nobody changed the log.

    Each line of [b]audit.jsonl[/b] holds the digest of the line before; the exit code is 2 where the chain breaks.
    Lines that were cut off the end do not show: note the last digest elsewhere, and compare.
    """
    from fedloom.core.errors import FedloomError
    from fedloom.deploy.audit_log import read_audit
    from fedloom.deploy.participant_folder import role_of

    role_of(folder)
    trail = read_audit(folder)
    if as_json:
        say(json.dumps({"entries": trail.entries, "head": trail.head, "problem": trail.problem}))
    else:
        for entry in trail.entries:
            say(_audit_line(entry))
        say(f"{len(trail.entries)} entries; the last digest is {trail.head}")
    if trail.problem:
        raise FedloomError(trail.problem)


def _audit_line(entry: dict[str, Any]) -> str:
    from fedloom.deploy.protocol.wire import printable_line

    time, who, what = (str(entry.get(name, "")) for name in ("time", "who", "what"))
    facts = [f"{name}={value}" for name, value in entry.items() if name not in ("time", "who", "what", "before")]
    return printable_line(f"{time}  {who}  {what}  {' '.join(facts)}".rstrip(), 1000)


@app.command()
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


@app.command()
def add(
    site: Site,
    folder: Deployment = Path("deploy"),
    request_file: Annotated[
        Path | None, typer.Option("--request", help="The request of a site that made its keys itself.")
    ] = None,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="The site uses a share of the run file's data.")
    ] = False,
    authority: Authority = None,
) -> None:
    """Add a site to a deployment, also while it runs, or bring back one that was revoked, with new keys.

    A site that was revoked is back from the next round on. A site that is new takes part in the next run ([b]fedloom
    deploy run --new[/b]), since a run's number of sites is fixed when it begins; before the first run, in that one.

    Example:  fedloom deploy add east
    """
    from fedloom.deploy.provision.membership import add as admit
    from fedloom.deploy.provision.membership import takes_part_in

    place = admit(site, folder, authority, request_file, rehearsal)
    say(f"{place}")
    say(f"Give the folder to {site} alone. It takes part {takes_part_in(site, folder)}.")
    _apply(folder, f"{site} may connect now.", f"{site} may connect when the server has this folder and is started.")


@app.command()
def revoke(site: Site, folder: Deployment = Path("deploy")) -> None:
    """Refuse a site at once and for good: its certificate, its key, and its connections that are open.

    Needs the server's folder only, not the authority's. [b]fedloom deploy add SITE[/b] gives the site new keys.

    Example:  fedloom deploy revoke north
    """
    from fedloom.deploy.provision.membership import revoke as refuse

    refuse(site, folder)
    _apply(folder, f"{site} is refused from now on.", f"{site} is revoked: the server refuses it when it is started.")


@app.command()
def renew(folder: Deployment = Path("deploy"), days: Days = 365, authority: Authority = None) -> None:
    """Renew the certificates of server and sites, for the same keys; a running server takes its own at once.

    Sites that run get theirs from the server. Other sites need the three files that are listed, none of them secret.

    Example:  fedloom deploy renew --days 365
    """
    from fedloom.deploy.provision.membership import SITE_FILES
    from fedloom.deploy.provision.membership import renew as make

    for name, place in make(folder, authority, days).items():
        say(f"{name}: {place}/{{{','.join(SITE_FILES)}}}")
    _apply(folder, "The server uses its new certificate.", "The server uses its new certificate when it is started.")


def _apply(folder: Path, running: str, not_running: str) -> None:
    """Wait until a running server has taken a change of its folder, and say so."""
    from fedloom.deploy.operate.admission import wait_until_admitted
    from fedloom.deploy.operate.supervise import pid_file
    from fedloom.deploy.provision.membership import find_server

    home = find_server(folder)
    say(running if wait_until_admitted(home, pid_file(home)) else not_running)


def _say(text: str) -> None:
    say(text, err=True)


def _run_until_stopped(work: Any) -> None:
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        work()
    except KeyboardInterrupt:
        say("stopped", err=True)


def _report(folder: Path, as_json: bool) -> None:
    from fedloom.cli.run import fail_if_stopped, show_result
    from fedloom.runs.history import History

    history = History.load(folder)
    show_result(history, folder, as_json)
    cross = folder / "cross_site.json"
    if cross.exists() and not as_json:
        _print_cross(json.loads(cross.read_text()))
    fail_if_stopped({history.label: history.stopped})


def _print_cross(found: dict[str, Any]) -> None:
    from rich.table import Table

    from fedloom.cli.console import printer

    table = Table(title=found["what"])
    for name in ("model of", *found["sites"]):
        table.add_column(name, justify="left" if name == "model of" else "right")
    for name, scores in zip(found["models"], found["scores"], strict=True):
        table.add_row(name, *("" if score is None else f"{score:.4g}" for score in scores))
    printer().print(table)
