"""The live page of a plan: what it is sent, and in a real browser (where there is one) while runs begin and end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from fedloom.runs.folder.folder_lock import lock_folder
from fedloom.watch.plan_page import PlanEvents
from fedloom.watch.plan_reader import PlanReader
from support.browser import MARKS, chromium, page_without_trouble
from support.watched_runs import finish, play, serving, write_audit, write_comparison, write_run

EVIL = '<img src=x onerror="document.title=1">'


def get(server: Any, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(server.url + path, timeout=60) as answer:  # noqa: S310  our own
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_and_metrics_of_a_plan(tmp_path):
    folder = write_comparison(tmp_path / "cmp", ["fedavg", "local"], seeds=1, rounds=2)
    run = write_run(folder / "fedavg-seed0", 1, of=2)
    with lock_folder(run), serving(folder) as server:
        code, text = get(server, "health")
        found = json.loads(text)
        assert (code, found["phase"], found["runs_by_phase"]) == (200, "running", {"running": 1, "waiting": 1})
        assert found["seconds_left"] == pytest.approx(0.5 * 1 + 0.5 * 2)
        assert 'fedloom_runs{phase="waiting"} 1.0' in get(server, "metrics")[1]


def test_an_open_page_hears_of_a_plan_only_when_something_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("fedloom.watch.plan_reader.INTERVAL", -1.0)
    folder = write_comparison(tmp_path / "cmp", ["fedavg"], seeds=1, rounds=2)
    events = PlanEvents(PlanReader(folder))
    assert [name for name, _ in events.new()] == ["plan"]
    assert list(events.new()) == []
    write_run(folder / "fedavg-seed0", 1, of=2)
    [(_, data)] = events.new()
    assert json.loads(data)["members"][0]["phase"] == "interrupted"


playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


def expect(page: Any, place: str) -> Any:
    return playwright.expect(page.locator(place))


class TestInABrowser:
    pytestmark = MARKS

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
    def test_runs_begin_advance_and_end_while_the_page_is_open(self, browser, tmp_path, width, scheme):
        folder = write_comparison(tmp_path / "cmp", ["fedavg", EVIL], seeds=2, rounds=4)
        window = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        with serving(folder) as server, page_without_trouble(browser, server.url, **window) as page:
            expect(page, "#members tbody tr").to_have_count(4)
            expect(page, "#measured").to_be_hidden()
            run = write_run(folder / "fedavg-seed0", 1, of=4)
            with lock_folder(run):
                expect(page, "#phase").to_have_text("running")
                expect(page, "#members tbody tr >> nth=0").to_contain_text("1 of 4")
                expect(page, "#chart canvas").to_have_count(1)
                play(run, [2, 3, 4])
                finish(run)
            expect(page, "#state").to_contain_text("1 finished · 3 wait")
            expect(page, "#readout .entry").to_have_text("fedavg 82.0 %")
            page.locator("#metric").select_option(label="Loss, clients' models on their own test sets")
            expect(page, "#readout .entry").to_have_text("fedavg 0.4")
            assert page.title() == "… 1/4 2 methods on digits"
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.locator("img").count() == 0

    def test_of_an_audit_it_lists_what_was_played_and_what_was_refused(self, browser, tmp_path):
        folder = write_audit(tmp_path / "audit")
        with serving(folder) as server, page_without_trouble(browser, server.url) as page:
            expect(page, "#state").to_have_text("1 finished · 1 refused · a budget of 2 min")
            expect(page, "#members tbody tr >> nth=1").to_have_text("gan (as configured)0refusedno classes")
            expect(page, "#measured").to_be_hidden()
