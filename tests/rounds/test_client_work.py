"""The work of a client is what every engine knows of it."""

from __future__ import annotations

from fedloom.rounds.client_work import ClientWork, report_nothing


def test_work_is_a_plain_record() -> None:
    work = ClientWork(1, 0, 3, "north", 20, 5, bytes_sent=100)
    assert work == ClientWork(1, 0, 3, "north", 20, 5, 100)
    assert report_nothing(work) is None  # type: ignore[func-returns-value]
