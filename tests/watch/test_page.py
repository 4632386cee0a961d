"""The live page in a real browser, while a run grows, goes back and ends. Skipped where Chromium is missing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fedloom.deploy.audit_log import append
from fedloom.runs.folder.folder_lock import lock_folder
from fedloom.runs.folder.metrics_file import append_record
from fedloom.watch.deployment import DeploymentFolder, ServerFacts
from support.browser import MARKS, chromium, page_without_trouble
from support.watched_runs import finish, play, record, serving, write_run, write_server

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
pytestmark = MARKS
EVIL = '<img src=x onerror="document.title=1">'
DESK, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 760}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


def expect(page: Any, place: str) -> Any:
    return playwright.expect(page.locator(place))


def test_a_run_grows_goes_back_and_ends_while_the_page_is_open(browser, tmp_path):
    folder = write_run(tmp_path / "r", 2, of=5)
    with serving(folder) as server, page_without_trouble(browser, server.url, viewport=DESK) as page:
        expect(page, "#phase").to_have_text("interrupted")
        expect(page, "#trouble").to_contain_text("fedloom resume")
        expect(page, "#charts canvas").to_have_count(4)  # accuracy, loss, bytes, seconds
        with lock_folder(folder):
            expect(page, "#phase").to_have_text("running")
            expect(page, "#trouble").to_be_hidden()
            left = {"client": 1, "name": EVIL, "what": "update", "reason": "no answer within 5 s"}
            append_record(folder, record(3, excluded=[left]), 0.5)
            expect(page, "#state").to_contain_text("round 3 of 5")
            expect(page, "#rounds tbody tr").to_have_count(4)
            expect(page, "#left-out tbody tr").to_have_text(f"3{EVIL}updateno answer within 5 s")
            lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
            (folder / "metrics.jsonl").write_bytes(b"".join(lines[:2]))  # killed, and resumed from round 1
            expect(page, "#rounds tbody tr").to_have_count(2)
            expect(page, "#missing").to_be_hidden()
            play(folder, [2, 3, 4, 5])
            finish(folder)
        expect(page, "#phase").to_have_text("finished")
        expect(page, "#rounds tbody tr").to_have_count(6)
        assert page.title() == "✓ 5/5 fedavg on digits"
        expect(page, "#cards .card b").to_have_text(["85.0 %", "42.5 %", "15 kB", "0.5 s"])
        assert page.locator("img").count() == 0
        over = page.locator(".chart .u-over").first
        over.hover(position={"x": 2, "y": 50})
        expect(page, ".chart .legend >> nth=0").to_contain_text("round 0:")


@pytest.mark.parametrize("window", [DESK, PHONE])
def test_a_deployment_shows_its_sites_and_logs_without_scrolling_sideways(browser, tmp_path, monkeypatch, window):
    folder = write_server(tmp_path / "server", 3)
    append(folder, "site connected", site="north", version="0.6.0.dev0", train=7000, valid=0, test=30, points=100)
    append(folder, "site refused", site="south", reason="it runs fedloom 0.1, but the server runs 0.6.0.dev0")
    (folder / "logs").mkdir()
    (folder / "logs" / "superlink.log").write_text(f"\x1b[31mstarted\x1b[0m {EVIL}\n" + 300 * "long " + "\n")
    left = {"client": 1, "name": "south", "what": "update", "reason": 60 * "w" + " is not finite"}
    for number in (4, 5, 6, 8):
        append_record(folder / "run", record(number, excluded=[left]), 2.5)
    facts = ServerFacts(1, True, "", {}, {"north": time.time()}, frozenset({"north"}))
    monkeypatch.setattr(DeploymentFolder, "_connections", lambda *_: facts)
    monkeypatch.setattr(DeploymentFolder, "process", lambda _: 1)
    monkeypatch.setattr("fedloom.watch.deployment.is_serving", lambda _: True)
    touch = {"has_touch": True} if window == PHONE else {}
    with serving(folder) as server, page_without_trouble(browser, server.url, viewport=window, **touch) as page:
        expect(page, "#phase").to_have_text("running")
        rows = page.locator("#participants tbody tr")
        playwright.expect(rows.nth(0)).to_contain_text("connected, just now")
        playwright.expect(rows.nth(1)).to_contain_text("it runs fedloom 0.1")
        expect(page, "#about").to_contain_text("2 entries, the chain is whole")
        page.locator("#logs summary").click()
        expect(page, "#logs pre").to_contain_text(f"started {EVIL}")
        expect(page, "#left-out tbody tr td:first-child").to_have_text(["8", "4–6"])
        assert page.evaluate("document.documentElement.scrollWidth") <= window["width"]
        assert rows.nth(0).locator("td").first.bounding_box()["height"] < 80  # a name is not broken into letters
        assert page.title() != "1"
        assert page.locator("img").count() == 0


def test_of_ten_thousand_rounds_a_hundred_are_drawn(browser, tmp_path):
    folder = write_run(tmp_path / "r", 0, of=10_001)
    with open(folder / "metrics.jsonl", "a") as file:
        file.writelines(json.dumps(record(number)) + "\n" for number in range(1, 10_001))
    with serving(folder) as server, page_without_trouble(browser, server.url, viewport=DESK) as page:
        expect(page, "#state").to_contain_text("round 10,000")
        expect(page, "#rounds-note").to_have_text("The last 100 of 10,001; all are in metrics.jsonl.")
        for number in range(10_001, 10_004):
            play(folder, [number])
            expect(page, "#rounds tbody tr >> nth=0").to_contain_text(f"{number:,}")
        assert page.locator("#rounds tbody tr").count() == 100  # what is drawn does not grow with the rounds


def test_a_page_whose_server_ends_says_so(browser, tmp_path):
    folder = write_run(tmp_path / "r", 1)
    with serving(folder) as server:
        page = browser.new_page()
        page.goto(server.url)
        expect(page, "#rounds tbody tr").to_have_count(2)
    expect(page, "#lost").to_be_visible()
    page.close()
