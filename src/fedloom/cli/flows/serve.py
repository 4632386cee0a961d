"""``fedloom flows serve``: a page on which a person builds a flow and sees what the model expects next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli.flows.recommend import Client, load_recommender
from fedloom.cli.terminal.say import say


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
    from fedloom.web.access import Access
    from fedloom.web.connection_owner import names_owners, refuse_unknown_visitors

    recommender = load_recommender(model, client)
    refuse_unknown_visitors(model)  # it knows its owner's private words
    access = Access(everybody=not names_owners())  # where owners are not named, all may read the model
    with FlowServer(recommender, port, access) as server:
        say(f"Build a flow at {server.url} (Ctrl-C ends it)", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped", err=True)
