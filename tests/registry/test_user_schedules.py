"""Learning-rate schedules of a user's own."""

import pytest

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.registry.code_consent import trust_only
from fedloom.registry.user_schedules import find_schedule, load_schedule

SOURCE = """
def over(round, rounds):
    return round / rounds

def within(round, step, steps):
    return (1 - step / steps) / round

def strange(epoch):
    return 1.0

def nothing():
    return 1.0

def negative(round):
    return -round

def broken(round):
    return 1 / 0
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    return tmp_path / "mine.py"


def test_what_it_depends_on_is_seen_in_its_arguments(path):
    over, within = (LocalWork(lr=0.5, schedule=f"{path}:{name}") for name in ("over", "within"))
    assert (over.needs_all_rounds, over.changes_within_round) == (True, False)
    assert (within.needs_all_rounds, within.changes_within_round) == (False, True)
    assert over.lr_at(2, 8) == 0.125
    assert over.rates_in(2, 8) is None
    rates = within.rates_in(2, 8)
    assert [rates(step, 4) for step in range(4)] == [0.25, 0.1875, 0.125, 0.0625]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("strange", "give it any of the arguments round, rounds, step, steps; it takes epoch"),
        ("nothing", "it takes none of them"),
        ("absent", r"mine\.py has no class or function absent"),
    ],
)
def test_what_is_no_schedule_is_refused(path, name, message):
    with pytest.raises(FedloomError, match=message):
        load_schedule(f"{path}:{name}")


@pytest.mark.parametrize(
    ("name", "message"), [("negative", r"gave -2\.0 for round=2"), ("broken", "ZeroDivisionError")]
)
def test_what_it_gives_must_be_a_factor(path, name, message):
    with pytest.raises(FedloomError, match=message):
        LocalWork(schedule=f"{path}:{name}").lr_at(2, 8)


def test_a_file_that_changes_does_not_change_a_run_that_goes_on(path):
    before = load_schedule(f"{path}:over")
    path.write_text(SOURCE.replace("round / rounds", "0.0"))
    assert find_schedule(f"{path}:over") is before
    assert load_schedule(f"{path}:over")(round=1, rounds=2, step=0, steps=1) == 0.0


def test_code_that_may_not_run_is_not_run(path):
    with trust_only([], "it"), pytest.raises(FedloomError, match="--trust"):
        load_schedule(f"{path}:over")
