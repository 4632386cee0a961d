"""``fedloom deploy add``, ``revoke`` and ``renew``: who belongs to a deployment, and how long certificates hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli.deploy.options import Days
from fedloom.cli.terminal.say import say

Deployment = Annotated[Path, typer.Argument(help="The folder that fedloom deploy init wrote, or the server's folder.")]
Site = Annotated[str, typer.Argument(metavar="SITE", help="The site's name.")]
Authority = Annotated[
    Path | None, typer.Option("--authority", help="The authority's folder, if it is not beside the server's.")
]


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


def revoke(site: Site, folder: Deployment = Path("deploy")) -> None:
    """Refuse a site at once and for good: its certificate, its key, and its connections that are open.

    Needs the server's folder only, not the authority's. [b]fedloom deploy add SITE[/b] gives the site new keys.

    Example:  fedloom deploy revoke north
    """
    from fedloom.deploy.provision.membership import revoke as refuse

    refuse(site, folder)
    _apply(folder, f"{site} is refused from now on.", f"{site} is revoked: the server refuses it when it is started.")


def renew(folder: Deployment = Path("deploy"), days: Days = 365, authority: Authority = None) -> None:
    """Renew the certificates of server and sites, for the same keys; a running server takes its own at once.

    Sites that run get theirs from the server. Other sites need the three files that are listed, none of them secret.

    Example:  fedloom deploy renew --days 365
    """
    from fedloom.deploy.provision.membership import renew as make
    from fedloom.deploy.provision.signature import RENEWED_FILES

    for name, place in make(folder, authority, days).items():
        say(f"{name}: {place}/{{{','.join(RENEWED_FILES)}}}")
    _apply(folder, "The server uses its new certificate.", "The server uses its new certificate when it is started.")


def _apply(folder: Path, running: str, not_running: str) -> None:
    """Wait until a running server has taken a change of its folder, and say so."""
    from fedloom.deploy.operate.admission import wait_until_admitted
    from fedloom.deploy.operate.supervise import pid_file
    from fedloom.deploy.provision.membership import find_server

    home = find_server(folder)
    say(running if wait_until_admitted(home, pid_file(home)) else not_running)
