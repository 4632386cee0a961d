"""``fedloom flows serve``: a page on which a person builds a flow and sees what the model expects next."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli.flows.recommend import Client, load_recommender
from fedloom.cli.terminal.say import say

CONNECTIONS = Path("/proc/net/tcp")
"""Where Linux lists the connections of a machine with their users."""


def serve(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="An exported model file, a site's folder, or a run's folder (then give --client)."
        ),
    ],
    port: Annotated[int, typer.Option("--port", help="The port on this machine; 0 finds a free one.")] = 8765,
    client: Client = None,
) -> None:
    """Serve a page on this machine to build a flow on, with ranked next actions; Ctrl-C ends it.

    The page adds actions, connects them, opens and saves drafts. It is reached from this machine only, and nothing
    leaves it.

    Example:  fedloom flows serve deploy/north --port 8765
    """
    from fedloom.tasks.flows.serving.server import FlowServer

    with FlowServer(load_recommender(model, client), port, is_own_connection) as server:
        say(f"Build a flow at {server.url} (Ctrl-C ends it)", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped", err=True)


def is_own_connection(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection on this machine is of the user who serves the page, or of root.

    A model knows its owner's private words, and any user of the machine reaches a loopback port. Where the system does
    not list its connections (only Linux does), every local user is let in.

    Args:
        client: The address and port that it comes from.
        server: The address and port that it came to.
    """
    from fedloom.watch.access import user_of_connection

    return user_of_connection(client, server) in (0, os.getuid()) or not CONNECTIONS.exists()
