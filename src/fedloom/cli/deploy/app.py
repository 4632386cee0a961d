"""``fedloom deploy``: run a simulated configuration on real machines, over Flower."""

from __future__ import annotations

import typer

from fedloom.cli.deploy.membership import add, renew, revoke
from fedloom.cli.deploy.operate import client, run, server, stop
from fedloom.cli.deploy.provision import approve, explain, init, request
from fedloom.cli.deploy.status import audit, status

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def deploy() -> None:
    """Run a simulated configuration on real machines: a server, and sites that keep their data.

    1. [b]fedloom deploy init run.toml --clients site-1,site-2,site-3[/b]   a folder per participant
    2. [b]fedloom deploy explain run.toml[/b]   what leaves a site, in words and bytes
    3. [b]fedloom deploy server deploy/server[/b]   on the server's machine
    4. [b]fedloom deploy client deploy/site-1[/b]   at each site
    5. [b]fedloom deploy run deploy/server[/b]   the run; it writes the same folder as a simulation
    """


app.command()(init)
app.command()(explain)
app.command()(server)
app.command()(client)
app.command()(run)
app.command()(status)
app.command()(stop)
app.command()(audit)
app.command()(approve)
app.command()(request)
app.command()(add)
app.command()(revoke)
app.command()(renew)
