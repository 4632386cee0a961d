"""One torch thread in tests, as in runs: threads that compete for two cores only slow each other down.

And Ctrl-C means Ctrl-C: a script's background job ignores it, and every process that a test starts would do so too.
"""

from __future__ import annotations

import os
import signal

import pytest
import torch
from hypothesis import HealthCheck, settings

from fedloom.core.warn_once import warn_once

settings.register_profile(  # a test that needs more examples says so itself; a busy machine is no failure
    "short", settings.default, max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("short")
torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def user_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What Fedloom notes for a user is not noted for the one who tests it."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def warnings_of_a_new_process() -> None:
    """What a process says once is said again in each test, whichever tests its process has played before."""
    warn_once.cache_clear()


@pytest.fixture(autouse=True)
def no_pages_of_single_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report takes longer than a small run: only tests that ask for ``run_reports`` have them written."""
    if "run_reports" not in request.fixturenames:
        monkeypatch.setattr("fedloom.api.run.write_report", lambda *_: None)


@pytest.fixture
def run_reports() -> None:
    """``fl.run(out=...)`` and ``fl.resume`` write their reports, as they do for users."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a group come first: one process does them all, and would be the last to end."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
