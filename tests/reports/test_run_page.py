"""The report is one file that needs nothing else, has all its sections, and trusts no text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.reports.run_page import report_page, write_report
from fedloom.runs.results.history import History
from support.histories import history

SECTIONS = [
    "headline",
    "numbers",
    "by-round",
    "by-megabytes",
    "by-steps",
    "by-seconds",
    "before-after",
    "spread",
    "size",
    "partition",
    "selection",
    "bytes",
    "config",
    "reproduce",
]


def test_a_comparison_has_every_section_and_a_verdict() -> None:
    text = report_page({"fedavg": [history([0.1, 0.6])], "fedprox": [history([0.1, 0.7])]}, title="Two methods")
    for section in [*SECTIONS, "verdict"]:
        assert f'<h2 id="{section}">' in text
    assert "<h1>Two methods</h1>" in text
    assert "one seed does not establish a lead" in text
    assert "fedloom run config.toml" in text
    assert 'id="verdict"' not in report_page({"fedavg": [history([0.1, 0.6])]})


@pytest.mark.slow
def test_the_page_needs_no_network_and_runs_no_script_but_its_own() -> None:
    text = report_page({"fedavg": [history([0.1, 0.6])]})
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert (
        f"content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'\""
        in text
    )
    assert text.count("<script") == 2  # the data and the code
    assert "Permission is hereby granted" in script[1]  # the licence of uPlot goes with every copy
    outside = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text.replace(script[1], ""))
    assert not re.search(r"https?://|//cdn|@import|<link", outside)
    assert all(target.startswith(("#", "data:")) for target in re.findall(r'(?:href|src)="([^"]*)"', text))
    assert all(reference.startswith("#") for reference in re.findall(r"url\(([^)]*)\)", text))


def test_ids_are_unique_and_every_reference_has_its_target() -> None:
    text = report_page({"a": [history([0.1, 0.6])], "b": [history([0.1, 0.7])]})
    ids = re.findall(r'\sid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    text = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)  # it makes references of its own
    references = re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', text)
    assert {a or b for a, b in references} <= set(ids)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)


@pytest.mark.slow
def test_all_text_from_outside_is_escaped() -> None:
    evil = '<script>alert("$x$")</script><img src=x onerror=alert(1)>'
    run = history([0.1, 0.6], stopped=evil)
    run.config |= {"method": {"name": evil}, "task": {"name": evil}, evil: {evil: evil}, "seed": evil}
    run.partition |= {"class_names": [evil] * 3, "client_names": [evil] * 4}
    run.clients[0]["name"] = evil
    tags = Tags()
    tags.feed(
        re.sub(
            r"<script.*?</script>",
            "",
            report_page({evil: [run], "b": [history([0.1, 0.6])]}, title=evil),
            flags=re.DOTALL,
        )
    )
    assert not tags.seen & {"script", "img"}


def test_methods_with_the_same_value_are_level_in_the_cards() -> None:
    text = report_page({"a": [history([0.1, 0.6])], "b": [history([0.1, 0.6])], "c": [history([0.1, 0.5])]})
    assert "highest of 3 methods: a and b are level" in text


@pytest.mark.slow
def test_the_same_histories_give_the_same_bytes() -> None:
    assert report_page({"a": [history([0.1, 0.6])]}) == report_page({"a": [history([0.1, 0.6])]})


def test_numbers_of_the_page_are_those_of_the_run() -> None:
    text = report_page({"fedavg": [history([0.1, 0.6]), history([0.1, 0.8])]})
    assert "70.0 ± 14.1 %" in text  # global model: 0.6 and 0.8
    assert "35.0 ± 7.1 %" in text  # clients' models: 0.3 and 0.4


@pytest.mark.slow
def test_what_clients_send_to_each_other_is_part_of_the_traffic() -> None:
    chain = history([0.1, 0.6])
    chain.records[1]["bytes_between"] = 4_000_000
    text = report_page({"fedseq": [chain]})
    assert "<b>7 MB</b>" in text  # 1 up, 2 down, 4 between
    assert "<td>1</td><td>2</td><td>4</td>" in text


@pytest.mark.slow
def test_notices_of_a_deployment_are_shown_once(tmp_path) -> None:
    run = history([0.1, 0.6])
    assert "expires" not in report_page({"fedavg": [run]})
    run.folder = tmp_path
    (tmp_path / "notices.json").write_text('["The certificate of <b>north</b> expires on 2026-12-01."]')
    text = report_page({"fedavg": [run, run]})
    assert text.count("The certificate of &lt;b&gt;north&lt;/b&gt; expires on 2026-12-01.") == 1
    (tmp_path / "notices.json").write_text("[")
    assert "expires" not in report_page({"fedavg": [run]})


def test_who_was_left_out_is_shown_with_round_site_and_reason() -> None:
    evil = "<img src=x onerror=alert(1)>"
    run = history([0.1, 0.6])
    run.records[1]["excluded"] = [
        {"client": 2, "name": "west", "what": "update", "reason": "row is not finite"},
        {"client": 0, "name": evil, "what": evil, "reason": evil},
    ]
    text = report_page({"fedavg": [run]})
    assert '<h2 id="left-out">' in text
    assert "<td>1</td><td>west</td><td>update</td><td>row is not finite</td>" in text
    assert evil not in text
    assert 'id="left-out"' not in report_page({"fedavg": [history([0.1, 0.6])]})
    assert "<td>fedavg</td><td></td><td>1</td><td>west</td>" in report_page(
        {"fedavg": [run], "b": [history([0.1, 0.6])]}
    )


def test_what_counts_with_less_is_told_apart_from_what_is_left_out() -> None:
    run = history([0.1, 0.6])
    run.records[1]["remarks"] = [{"client": 2, "name": "west", "what": "clipped", "reason": "moved by 9"}]
    text = report_page({"fedavg": [run]})
    assert '<h2 id="remarks">' in text
    assert "<td>1</td><td>west</td><td>clipped</td><td>moved by 9</td>" in text
    assert 'id="left-out"' not in text


@pytest.mark.slow
def test_a_run_that_leaves_out_thousands_shows_the_first_and_says_so() -> None:
    run = history([0.1, 0.6])
    run.records[1]["excluded"] = [
        {"client": number, "name": f"site-{number}", "what": "score", "reason": "not connected"}
        for number in range(999)
    ]
    text = report_page({"fedavg": [run]})
    assert text.count("not connected") == 200
    assert "The first 200 of 999" in text


@pytest.mark.slow
@pytest.mark.parametrize("values", [[0.1], [0.1, 0.2], [0.1, float("nan")]])
def test_short_and_diverged_runs_are_reported(values: list[float]) -> None:
    text = report_page({"fedsgd": [history(values, stopped="the loss is NaN")], "b": [history([0.1, 0.5])]})
    assert "fedsgd stopped early (the loss is NaN)" in text


def test_a_run_without_clients_partition_and_global_test_says_what_is_missing() -> None:
    bare = history([0.1, 0.6])
    bare.clients, bare.partition = [], {}
    for record in bare.records:
        record["metrics"] = {k: v for k, v in record["metrics"].items() if k.startswith("client_model")}
    text = report_page({"a": [bare]})
    assert all(f'<h2 id="{section}">' in text for section in SECTIONS)
    assert "was not recorded in this run" in text
    assert "not measured" in text


def test_nothing_measured_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FedloomError, match="nothing to report"):
        write_report({"a": [History({"method": {"name": "a"}})]}, tmp_path / "report.html")
    with pytest.raises(FedloomError, match="'a' has no run"):
        write_report({"a": []}, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_write_replaces_an_old_report_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    for _ in range(2):
        assert write_report({"a": [history([0.1, 0.6])]}, path) == path
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
