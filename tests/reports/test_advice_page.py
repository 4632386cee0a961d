"""The page and the figure of an advice show every candidate that it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedloom.reports.advice_page import advice_figure, write_advice_page
from fedloom.runs.plans.advise.advice import Advice, Cost, Standing
from support.advices import PICK, example_advice


@pytest.fixture
def advice() -> Advice:
    return example_advice()


def test_the_figure_has_a_dot_for_every_named_candidate(advice: Advice) -> None:
    axes = advice_figure(advice).axes[0]
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert dots == [0.81, 0.78, 0.71, 0.71, 0.78, 0.81, 0.78, 0.71]


def test_the_page_is_whole_and_escapes_what_it_shows(advice: Advice, tmp_path) -> None:
    text = write_advice_page(advice, tmp_path / "report.html").read_text()
    assert "<broke>" not in text
    assert "it &lt;broke&gt;." in text
    assert text.count("<tr>") == 1 + 3 + 2 + 3
    assert "<svg" in text


def test_the_figure_shows_losses_as_losses(advice: Advice) -> None:
    standing = Standing("local lr=0.1", -1.5, -1.25, 0.5, 2)
    groups = (replace(PICK, use=standing, runner_up=None, local=None),)
    lossy = replace(advice, score="loss", higher_is_better=False, is_share=False, groups=groups)
    axes = advice_figure(lossy).axes[0]
    assert axes.lines[0].get_xdata()[0] == 1.25


def test_an_advice_that_beats_no_baseline_says_so_first() -> None:
    base, advice = Standing("baseline: majority", 0.9, 0.91, 0.01, 3), example_advice()
    lost = replace(
        advice,
        groups=tuple(replace(pick, baseline=base, over_baseline=0.4) for pick in advice.groups),
        overall=replace(advice.overall, baseline=base, over_baseline=0.4),
        costs={**advice.costs, base.candidate: Cost(0, 0, 0)},
        baselines={base.candidate: "always answering '1'"},
    )
    assert str(lost).startswith("What is advised is not better than always answering '1' (91.0 ± 1.0 %).")
    assert "baseline: majority" in str(lost)
    some = replace(lost, overall=replace(lost.overall, over_baseline=0.99))
    assert str(some).startswith("What is advised is not better than the baseline for these clients: small and big.")
    assert str(advice).startswith("Advice for")
