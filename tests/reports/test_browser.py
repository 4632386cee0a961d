"""A report in a real browser: a test clicks what a person would click. Skipped where Chromium is missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedloom.reports.run_page import write_report
from support.browser import MARKS, chromium, page_without_trouble
from support.histories import history

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
pytestmark = MARKS
EVIL = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two methods with two seeds; names in several scripts, one of them an attack."""
    runs: dict[str, list[Any]] = {"fedavg": [], "محلي": []}
    for place, several in enumerate(runs.values()):
        for seed in (0, 1):
            run = history([0.1, 0.5 + 0.1 * place, 0.6 + 0.1 * place + 0.02 * seed, 0.8])
            run.config |= {"seed": seed, "task": {"name": "东京 digits"}}
            run.seconds = dict.fromkeys(range(4), 1.5)
            run.partition |= {"class_names": ["ноль", "一", "τρία"]}
            run.confusion = [[3, 1, 0], [0, 4, 0], [1, 1, 2]]
            for row, name, value in zip(
                run.clients, ("東京", EVIL, "Αθήνα", "north"), (0.9, 0.3, 0.7, 0.5), strict=True
            ):
                row |= {"name": name, "accuracy": value - 0.1 * place, "loss": 1.25}
            for record in run.records:
                record["metrics"]["client_model/own_test/loss/mean"] = 2.0 / (1 + record["round"])
            several.append(run)
    return write_report(runs, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    with page_without_trouble(browser, report.as_uri(), viewport={"width": 1200, "height": 900}) as opened:
        yield opened


def rows_of(download: Any) -> list[list[str]]:
    return list(csv.reader(io.StringIO(Path(download.path()).read_text(encoding="utf-8-sig"))))


def test_hovering_shows_every_methods_value(page: Any) -> None:
    over = page.locator("#chart .u-over")
    box = over.bounding_box()
    over.hover(position={"x": box["width"] - 2, "y": box["height"] / 2})
    playwright.expect(page.locator("#readout .where")).to_have_text("round: 3")
    playwright.expect(page.locator("#readout .entry")).to_have_count(2)
    playwright.expect(page.locator("#readout")).to_contain_text("fedavg 40.0 % ± 0.0 %")


def test_metric_and_axis_can_be_chosen_and_methods_switched_off(page: Any) -> None:
    page.locator("#metric").select_option(label="Loss, clients' models on their own test sets")
    page.locator("#axis").select_option(label="by seconds")
    chip = page.locator("#methods button", has_text="fedavg")
    chip.click()
    playwright.expect(chip).to_have_attribute("aria-pressed", "false")
    with page.expect_download() as waiting:
        page.locator("#curves-csv").click()
    rows = rows_of(waiting.value)
    assert rows[0][2:4] == ["seconds so far (training and evaluation)", "Loss, clients' models on their own test sets"]
    assert rows[1:] == [
        ["محلي", str(r), str(1.5 * (r + 1)).removesuffix(".0"), f"{2 / (1 + r):.6g}", "0"] for r in range(4)
    ]
    page.locator("#methods button", has_text="محلي").click()
    playwright.expect(page.locator("#chart")).to_contain_text("Nothing to show")
    chip.click()
    playwright.expect(page.locator("#chart canvas")).to_have_count(1)


def test_dragging_zooms_and_a_double_click_shows_all_again(page: Any) -> None:
    over = page.locator("#chart .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    middle = box["y"] + box["height"] / 2

    def leftmost_round() -> Any:
        page.mouse.move(box["x"] + box["width"] - 3, middle)
        page.mouse.move(box["x"] + 1, middle)
        return page.locator("#readout .where")

    playwright.expect(leftmost_round()).to_have_text("round: 0")
    page.mouse.move(box["x"] + 0.6 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.97 * box["width"], middle, steps=4)
    page.mouse.up()
    playwright.expect(leftmost_round()).to_have_text("round: 2")
    page.mouse.dblclick(box["x"] + box["width"] / 2, middle)
    playwright.expect(leftmost_round()).to_have_text("round: 0")


def test_clients_are_sorted_found_and_opened(page: Any) -> None:
    names = page.locator("#client-table .open")
    head = page.locator("#client-table thead th").nth(4)
    head.locator("button").click()
    playwright.expect(names).to_have_text([EVIL, "north", "Αθήνα", "東京"])
    head.locator("button").click()
    playwright.expect(head).to_have_attribute("aria-sort", "descending")
    playwright.expect(names).to_have_text(["東京", "Αθήνα", "north", EVIL])
    page.locator("#find").fill("東")
    playwright.expect(names).to_have_count(1)
    names.first.click()
    detail = page.locator("#client-table .detail")
    playwright.expect(detail).to_contain_text("ноль")
    playwright.expect(detail.locator("tr").nth(2)).to_have_text("محلي80.0 %1.25none")
    names.first.click()
    playwright.expect(detail).to_have_count(0)
    with page.expect_download() as waiting:
        page.locator("#clients-csv").click()
    assert rows_of(waiting.value) == [["Client", "Training samples", "Test samples", "Size group", "fedavg", "محلي"], ["東京", "10", "5", "small", "0.9", "0.8"]]  # fmt: skip # noqa: E501
    page.locator("#seed").select_option(label="seed 1")
    playwright.expect(names).to_have_count(1)


@pytest.mark.parametrize("button", ["#curves-png", "figure[data-name=spread-0] .save"])
def test_charts_and_figures_are_saved_as_pictures(page: Any, button: str) -> None:
    from PIL import Image

    if button.startswith("figure"):
        page.locator("figure[data-name=spread-0]").hover()
    with page.expect_download() as waiting:
        page.locator(button).click()
    picture = np.asarray(Image.open(waiting.value.path()).convert("RGB"))
    assert waiting.value.suggested_filename.endswith(".png")
    assert min(picture.shape[:2]) > 100
    blue = np.abs(picture.astype(int) - [0x00, 0x72, 0xB2]).sum(2) < 30
    assert blue.sum() > 20  # the first method's line or dots


@pytest.mark.parametrize("width", [360, 768])
def test_a_phone_shows_it_without_scrolling_sideways(browser: Any, report: Path, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 800}, has_touch=True)
    opened.goto(report.as_uri())
    playwright.expect(opened.locator("#chart canvas")).to_be_visible()
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.locator("#chart").scroll_into_view_if_needed()
    box = opened.locator("#chart .u-over").bounding_box()
    opened.touchscreen.tap(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    playwright.expect(opened.locator("#readout .entry")).to_have_count(2)
    opened.close()


def test_without_a_script_the_figures_are_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(report.as_uri())
    playwright.expect(opened.locator("#by-round")).to_be_visible()
    playwright.expect(opened.locator("#metric")).to_be_hidden()
    playwright.expect(opened.locator("#confusion")).to_be_visible()
    context.close()


def test_names_are_text_whatever_they_contain(page: Any) -> None:
    playwright.expect(page.locator("#client-table .open", has_text="<img")).to_have_count(1)
    assert page.locator("#client-table img").count() == 0
    assert page.title() != "1"
