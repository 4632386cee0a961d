"""The live table of a comparison."""

import io

from rich.console import Console

from fedloom.cli.terminal.live import LiveTable
from fedloom.runs.results.summaries import CLIENTS, GLOBAL


def record(number, **metrics):
    return {"round": number, "metrics": metrics}


def test_rows_show_the_newest_numbers_and_how_much_is_done():
    live = LiveTable(["fedavg", "local"], seeds=2, rounds=10, quiet=True)
    with live:
        live.observer("fedavg", 0)(record(10, **{GLOBAL: 0.5, CLIENTS: 0.7}))
        again = live.observer("fedavg", 1)
        again(record(5, **{GLOBAL: 0.25, CLIENTS: 0.75}))
        again(record(6))
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(live.table())
    text = console.export_text()
    assert "2/2" in text
    assert "6/10" in text
    assert "25.0%" in text
    assert "75.0%" in text
    assert "40% done" in text


def test_a_piped_comparison_draws_nothing(capsys):
    with LiveTable(["fedavg"], seeds=1, rounds=2, quiet=False) as live:
        live.observer("fedavg", 0)(record(1, **{CLIENTS: 0.7}))
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""
