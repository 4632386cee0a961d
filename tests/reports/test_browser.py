"""A report in a real browser: a test clicks what a person would click. Skipped where Chromium is missing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from fedloom.reports.run_page import write_report
from fedloom.runs.results.significance import race
from fedloom.runs.results.summaries import GLOBAL, values_by_seed
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


@pytest.mark.parametrize("button", ["#curves-png", "figure[data-name=spread-0] .png"])
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


@pytest.fixture(scope="module")
def folder_of_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """The report of twelve runs: two methods, two learning rates, three seeds, whose last values are made up."""
    generator = np.random.default_rng(7)
    runs: dict[str, list[Any]] = {"fedavg": [], "scaffold": []}
    for name, several in runs.items():
        for rate in (0.1, 0.3):
            for seed in range(3):
                last = 0.5 + 0.1 * (name == "scaffold") + rate / 10 + 0.05 * seed + 0.02 * generator.random()
                run = history([0.1, 0.4, last])
                run.config |= {"seed": seed, "task": {"name": "own", "path": "data/stays.csv"}, "local": {"lr": rate}}
                several.append(run)
    return write_report(runs, tmp_path_factory.mktemp("runs") / "report.html"), runs


def test_runs_are_filtered_by_the_settings_in_which_they_differ_and_sorted(browser: Any, folder_of_runs: Any) -> None:
    report, _ = folder_of_runs
    with page_without_trouble(browser, report.as_uri()) as page:
        chips, rows = page.locator("#methods button"), page.locator("#run-table tbody tr")
        names = ["fedavg, local.lr=0.1", "fedavg, local.lr=0.3", "scaffold, local.lr=0.1", "scaffold, local.lr=0.3"]
        playwright.expect(chips).to_have_text(names)
        page.locator("#split").select_option(label="a line per run")
        playwright.expect(chips).to_have_count(12)
        page.locator("#split").select_option(label="a line per method")
        playwright.expect(page.locator("#chart-note")).to_contain_text("Mean of up to 6 runs")
        page.locator("[data-column='local.lr']").select_option("0.3")
        page.locator("[data-column=seed]").select_option("2")
        playwright.expect(rows).to_have_count(2)
        playwright.expect(chips).to_have_text(["fedavg", "scaffold"])
        value = page.locator("#run-table thead button", has_text="Value at the end")
        value.click()
        playwright.expect(rows.first).to_contain_text("fedavg")
        page.locator("#run-table thead button", has_text="Value at the end").click()
        playwright.expect(rows.first).to_contain_text("scaffold")
        rows.first.locator("input").uncheck()
        playwright.expect(chips).to_have_text(["fedavg"])
        playwright.expect(page.locator("h1")).to_have_text("fedavg, scaffold on stays.csv")


def test_the_difference_of_two_lines_has_the_interval_that_python_gives_it(browser: Any, folder_of_runs: Any) -> None:
    report, runs = folder_of_runs
    scores = {
        name: values_by_seed([run for run in several if run.config["local"]["lr"] == 0.1], GLOBAL, float)
        for name, several in runs.items()
    }
    [lead] = race(scores).leads
    with page_without_trouble(browser, report.as_uri()) as page:
        page.locator("#metric").select_option(label="Accuracy, shared model on the global test set")
        page.locator("#first").select_option(label="scaffold, local.lr=0.1")
        page.locator("#second").select_option(label="fedavg, local.lr=0.1")
        said = page.locator("#difference")
        playwright.expect(said).to_contain_text("(paired over 3 seeds)")
        found = [float(said.get_attribute(f"data-{end}")) for end in ("gap", "low", "high")]
        assert found == pytest.approx([lead.gap, lead.low, lead.high], abs=2e-6)  # the page has six digits
        playwright.expect(said).to_contain_text(f"+{100 * lead.gap:.1f} points")
        page.locator("[data-column=seed]").select_option("1")
        playwright.expect(said).to_contain_text("in the one seed that both have: no interval")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_are_saved_as_svg_and_printed_one_per_page_in_the_colours_of_paper(
    browser: Any, folder_of_runs: Any, scheme: str
) -> None:
    report, _ = folder_of_runs
    with page_without_trouble(browser, report.as_uri(), color_scheme=scheme) as page:
        for button in ("#curves-svg", "#gap-svg", "figure[data-name=spread-0] .svg"):
            if button.startswith("figure"):
                page.locator("figure[data-name=spread-0]").hover()
            with page.expect_download() as waiting:
                page.locator(button).click()
            drawing = Path(waiting.value.path()).read_text()
            ElementTree.fromstring(drawing)  # noqa: S314  our own
            assert "var(" not in drawing
            assert "#1b1f24" in drawing  # ink on paper
        page.evaluate("window.print = () => {}")
        page.locator("#all-pdf").click()
        figures = page.locator("#sheets svg").count()
        pages = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", pages)) == figures > 3
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        playwright.expect(page.locator("#sheets")).to_have_count(0)


def test_names_are_text_whatever_they_contain(page: Any) -> None:
    playwright.expect(page.locator("#client-table .open", has_text="<img")).to_have_count(1)
    assert page.locator("#client-table img").count() == 0
    assert page.title() != "1"
