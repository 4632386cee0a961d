"""``fedloom watch``: one live page about a run or a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli.terminal.say import say

PORT = 8711


def watch(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="The folder of a run, comparison, sweep, advice or audit, or deploy/server."
        ),
    ],
    port: Annotated[int, typer.Option("--port", help="The page's port; 0 finds a free one.")] = PORT,
    bind: Annotated[
        str,
        typer.Option("--bind", help="The address to listen on; other than loopback over TLS, for a server's folder."),
    ] = "127.0.0.1",
) -> None:
    """Show a run, a plan of runs or a deployment in a browser while it works.

    Of a run: rounds, metrics, sites, who was left out and why, bytes and logs. Of a comparison, sweep, advice or audit:
    which runs work, wait or are finished, the time that is left, and the curves so far.

    The page follows the folder, also through a stop and a resume; it only reads, and the run does not know of it. The
    same address has [b]/health[/b] (200, or 503 with the reason) and [b]/metrics[/b] (Prometheus). Ctrl-C ends it.

    Example:  fedloom watch runs/digits-fedavg-seed0 --port 8711
    """
    from fedloom.watch.server import WatchServer
    from fedloom.watch.token_file import TOKEN

    server = WatchServer(folder, bind, port)
    say(f"Watching {folder}: {server.url}")
    if server.access.token:
        say(f"Other users and machines need the token in {folder / TOKEN} (as password, any name).")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("stopped", err=True)
    finally:
        server.end()
