"""``fedloom deploy --help``."""

from __future__ import annotations

from typer.testing import CliRunner

from fedloom.cli.deploy.app import app


def test_the_help_lists_the_commands_in_the_order_of_use():
    text = CliRunner().invoke(app, ["--help"]).stdout
    places = [text.index(f"fedloom deploy {verb}") for verb in ("init", "explain", "server", "client", "run")]
    assert places == sorted(places)
