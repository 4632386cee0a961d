"""Tables that fit: columns are left out whole, in the given order, and what is left is never broken."""

import io

from hypothesis import given
from hypothesis import strategies as st

from fedloom.cli.terminal.console import PlainConsole
from fedloom.cli.terminal.fitting_table import print_fitting_table

COLUMNS = {"method": ["fedavg+fedpredict", "local"], "own\ntests": ["65.3 %", "8.0 %"], "rounds": ["20", "20"]}


def printed(width: int, spare: tuple[str, ...] = ("rounds", "own\ntests")) -> str:
    text = io.StringIO()
    print_fitting_table(PlainConsole(file=text, width=width), COLUMNS, spare, "three seeds", left=["method"])
    return text.getvalue()


def test_where_there_is_room_all_columns_are_shown() -> None:
    shown = printed(80)
    assert "rounds" in shown
    assert "more" not in shown
    assert "three seeds" in shown


def test_the_first_spare_column_goes_first_and_is_counted() -> None:
    full = max(map(len, printed(80).splitlines()))
    shown = printed(full - 1)
    assert "rounds" not in shown
    assert "65.3 %" in shown
    assert "1 more column" in " ".join(shown.split())


@given(st.integers(1, 100))
def test_no_name_and_no_number_is_ever_broken(width: int) -> None:
    shown = printed(width)
    assert "fedavg+fedpredict" in shown
    assert ("65.3 %" in shown) == ("8.0 %" in shown)


def test_what_is_not_spare_stays_where_nothing_fits() -> None:
    shown = printed(5, spare=("rounds",))
    assert "65.3 %" in shown
