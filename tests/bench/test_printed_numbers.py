"""Tables of a page are found with their studies, and a number that does not come out any more is found."""

from __future__ import annotations

import pytest

import printed_numbers
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import Study, StudyOutcome, StudyTable
from printed_numbers import PAGE, check, compare_cells, printed_studies

TEXT = """
### A title (`codecs --data mnist --seeds 2`)

Words.

| codec | accuracy (%) |
| --- | --- |
| none | 28.9 ± 0.5 |
| topk | 20.0 ± 1.0 |

### Another heading

| codec | accuracy (%) |
|---|---|
| of nobody | 1.0 |
"""


def test_a_study_has_its_options_and_the_tables_up_to_the_next_heading() -> None:
    (study,) = printed_studies(TEXT)
    assert (study.name, study.options) == ("codecs", {"data": "mnist", "seeds": "2"})
    assert study.rows == {
        ("codec", "accuracy (%)", "none"): {"accuracy (%)": "28.9 ± 0.5"},
        ("codec", "accuracy (%)", "topk"): {"accuracy (%)": "20.0 ± 1.0"},
    }


def test_every_study_of_the_page_exists_and_has_a_table() -> None:
    found = list(printed_studies(PAGE.read_text("utf-8")))
    assert len(found) > 10
    for one in found:
        assert one.name in STUDIES
        assert one.rows, one.name
        assert one.options.get("data", "") in ("", *STUDIES[one.name].data)


@pytest.mark.parametrize(
    ("printed", "now", "how"),
    [
        ("28.9 ± 0.5", "28.9 ± 0.5", "equal"),
        ("28.9 ± 0.5", "29.3 ± 0.1", "within"),
        ("28.9 ± 0.5", "29.5 ± 0.5", "different"),
        ("1,024", "1,025", "different"),
        ("28.9 ± 0.5", None, "different"),
        ("–", "1.0", "different"),
    ],
)
def test_cells_compare_by_their_deviation(printed: str, now: str | None, how: str) -> None:
    assert compare_cells(printed, now) == how


@pytest.mark.parametrize(("topk", "different"), [("20.0 ± 1.0", 0), ("20.9 ± 1.0", 0), ("23.0 ± 1.0", 1)])
def test_what_differs_is_counted_and_named(
    topk: str, different: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = StudyTable("t", ("codec", "accuracy (%)"), (("none", "28.9 ± 0.5"), ("topk", topk)))
    made = Study("codecs", "", lambda _: StudyOutcome("codecs", "t", (table,), ()), lambda _: [], data=("mnist",))
    monkeypatch.setattr(printed_numbers, "STUDIES", {"codecs": made})
    (study,) = printed_studies(TEXT)
    assert check(study) == different
    assert ("different: topk, accuracy (%): printed 20.0 ± 1.0, now 23.0 ± 1.0" in capsys.readouterr().out) == bool(
        different
    )
