"""The page to build a flow on, in a real browser: a test clicks what a person would click."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedloom.tasks.flows.formats.read_corpus import read_folder
from fedloom.tasks.flows.formats.read_flow import read_draft
from fedloom.tasks.flows.learning.flow_task import task_of_corpus
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel
from fedloom.tasks.flows.serving.page import builder_page, page_data
from fedloom.tasks.flows.serving.server import FlowServer
from support import small_flows
from support.browser import CHROMIUM, FLAGS
from support.n8n_exports import made_workflows, write_exports
from support.paths import FLOW_EXAMPLES

EVIL = "</script><img src=x onerror=alert(1)>"


def recommender_of(task: Any, client: str = "north") -> Recommender:
    return Recommender(SavedFlowModel.of_task(task, task.initial_row(), client, "fedavg"))


def test_a_name_in_a_model_cannot_leave_its_place_in_the_page() -> None:
    page = builder_page(recommender_of(small_flows.task(), EVIL))
    assert EVIL not in page
    assert page.count("</script>") == 2


def test_the_page_offers_public_words_and_the_labels_of_the_dialect(tmp_path: Path) -> None:
    write_exports(tmp_path / "acme", made_workflows("acme", 4))
    data = page_data(recommender_of(task_of_corpus(read_folder(tmp_path), buckets=8)))
    assert data["labels"][:3] == ["main", "main 1", "main 2"]
    assert "n8n-nodes-base.if" in data["kinds"]
    assert not any(kind.startswith("bucket") for kind in data["kinds"])
    assert page_data(recommender_of(small_flows.task()))["labels"] == ["False", "True"]


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("flows")
    write_exports(folder / "acme", made_workflows("acme", 4))
    with FlowServer(recommender_of(task_of_corpus(read_folder(folder), buckets=8, least_count=1000))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


@pytest.fixture(params=[(1200, 800), (390, 844)], ids=["desk", "phone"])
def page(request: pytest.FixtureRequest, page_url: str) -> Iterator[Any]:
    """The page in a window; any error, message or request to elsewhere fails the test."""
    if CHROMIUM is None:
        pytest.skip("the browser tests need Chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    width, height = request.param
    troubles: list[str] = []
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        opened = chromium.new_page(viewport={"width": width, "height": height})
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("console", lambda message: troubles.append(message.text) if "400" not in message.text else None)
        opened.on("request", lambda one: troubles.append(one.url) if not one.url.startswith((page_url, "data:")) else 0)
        opened.goto(page_url)
        playwright.expect.set_options(timeout=60_000)  # a busy machine may take its time
        opened.expect = playwright.expect
        yield opened
        chromium.close()
    assert troubles == []


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_a_person_builds_a_flow_and_sees_what_comes_next(page: Any, tmp_path: Path) -> None:
    nodes, suggestions = page.locator("#flow .node"), page.locator("#suggestions button")
    page.expect(suggestions).to_have_count(8)
    page.expect(nodes).to_have_count(1)
    shares = [float(text.removesuffix(" %")) for text in page.locator("#suggestions .share").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)

    page.locator("#kind").fill("if")
    page.locator("#other button").click()
    page.expect(nodes).to_have_count(2)
    page.expect(page.locator("#where")).to_have_text("After if")
    page.expect(page.locator("#label")).to_have_value("main")
    first = page.locator("#suggestions[aria-busy=false] button:enabled").first
    kind = first.locator(".name").inner_text().splitlines()[0]
    first.click()  # the best suggestion becomes the next action
    page.expect(nodes).to_have_count(3)
    page.expect(page.locator("#flow")).to_contain_text(kind)

    page.locator("#flow .node[data-id='if']").click()
    page.expect(page.locator("#label")).to_have_value("main 1")  # the other branch
    page.locator("#kind").fill("set")
    page.locator("#other button").click()
    page.expect(nodes).to_have_count(4)
    page.locator("#kind").fill("code")
    page.locator("#other button").click()
    page.expect(nodes).to_have_count(5)
    page.locator("#flow .node[data-id='set']").click()
    page.locator("#connect").click()
    page.locator("#flow .node[data-id='if']").click()  # a loop back
    page.expect(page.locator("#flow .back")).to_have_count(1)

    page.locator("#flow .node[data-id='code']").click()
    page.locator("#remove").click()
    page.expect(nodes).to_have_count(4)
    page.locator("#undo").click()
    page.expect(nodes).to_have_count(5)

    with page.expect_download() as waiting:
        page.locator("#save").click()
    waiting.value.save_as(tmp_path / "flow.json")
    saved = read_draft(tmp_path / "flow.json").flow
    assert [(edge.source, edge.target, edge.label) for edge in saved.edges[-1:]] == [("set", "if", "main 1")]
    assert len(saved.nodes) == 5
    width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_a_problem_stays_when_an_earlier_question_is_answered_after_it(page: Any, tmp_path: Path) -> None:
    page.expect(page.locator("#suggestions[aria-busy=false] button")).to_have_count(8)
    held: list[Any] = []
    page.route("**/recommend", lambda route: held.append(route))
    page.locator("#kind").fill("if")
    page.locator("#other button").click()
    page.expect(page.locator("#where")).to_have_text("After if")
    (tmp_path / "broken.json").write_text('{"nodes": [')
    page.locator("#file").set_input_files(tmp_path / "broken.json")
    page.expect(page.locator("#problem")).to_contain_text("broken.json, line 1")
    for one in held:
        one.continue_()
    page.expect(page.locator("#suggestions[aria-busy=false] button")).to_have_count(8)
    page.expect(page.locator("#problem")).to_contain_text("broken.json, line 1")


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_a_draft_is_opened_and_a_broken_one_is_a_sentence(page: Any, tmp_path: Path) -> None:
    page.locator("#file").set_input_files(FLOW_EXAMPLES / "support_mail.n8n.json")
    page.expect(page.locator("#flow .node")).to_have_count(9)
    page.expect(page.locator("#where")).to_have_text("After Confirm receipt")
    (tmp_path / "broken.json").write_text('{"nodes": [')
    page.locator("#file").set_input_files(tmp_path / "broken.json")
    page.expect(page.locator("#problem")).to_contain_text("broken.json, line 1")
    page.expect(page.locator("#flow .node")).to_have_count(9)
    (tmp_path / "odd.json").write_text(json.dumps({"nodes": [{"name": EVIL, "type": "x"}], "connections": {}}))
    page.locator("#file").set_input_files(tmp_path / "odd.json")
    page.expect(page.locator("#flow .node")).to_have_count(2)
    assert page.locator("img").count() == 0
