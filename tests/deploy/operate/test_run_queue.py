"""Places in line: in order, on disk, and private; a run that is watched stays where it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fedloom.deploy.operate.run_queue import QUEUE, RunQueue, RunWatch


def test_places_are_given_in_order_and_kept_on_disk(tmp_path):
    first, second = RunQueue(tmp_path).join(at_once=True), RunQueue(tmp_path).join(at_once=True)
    assert RunQueue(tmp_path).waiting() == [first, second]
    assert (first.at_once, second.at_once) == (True, False)  # somebody is before the second
    assert (tmp_path / QUEUE).stat().st_mode & 0o777 == 0o600
    RunQueue(tmp_path).leave(first.ticket)
    assert not RunQueue(tmp_path).has(first.ticket)
    assert RunQueue(tmp_path).waiting() == [second]
    RunQueue(tmp_path).leave(second.ticket)
    assert not (tmp_path / QUEUE).exists()


def test_many_who_ask_at_the_same_time_all_get_a_place(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda _: RunQueue(tmp_path).join(at_once=False).ticket, range(24)))
    assert sorted(asked) == sorted(one.ticket for one in RunQueue(tmp_path).waiting())


@pytest.mark.parametrize("content", ["", "{", "[]", '{"waiting": [{"ticket": 1}]}', '{"waiting": [3]}'])
def test_a_damaged_line_is_an_empty_one(tmp_path, content):
    (tmp_path / QUEUE).write_text(content)
    assert RunQueue(tmp_path).waiting() == []


def test_the_next_run_is_begun_by_its_own_command_or_by_any_if_that_is_gone(tmp_path):
    living, dead = RunQueue(tmp_path), RunQueue(tmp_path)
    first, second = dead.join(at_once=False), living.join(at_once=False)
    assert living.next_for(second.ticket) is None  # the command of the first one lives
    dead.held[first.ticket].close()
    assert living.next_for(second.ticket) == living.next_for("") == first
    living.leave(first.ticket)
    assert living.next_for("") is None
    assert living.next_for(second.ticket) == second


def test_a_run_stays_where_it_is_while_anybody_watches_it(tmp_path):
    mine, other = RunWatch(tmp_path), RunWatch(tmp_path)
    mine.watch()
    other.watch()
    assert not mine.take()
    other.release()
    assert mine.take()
    assert not other.take()
    mine.close()
    assert other.take()
    other.close()
