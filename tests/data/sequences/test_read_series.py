"""A table with a row per time step: series in their order, one target each, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError

SERIES = {"series": "visit", "order": "minute"}


def write(path: Path, change: dict[int, str] | None = None) -> Path:
    """Visits of 3 to 7 steps, from the last one to the first; the pulse is the number of the step."""
    lines = ["visit,minute,pulse,label,site"]
    for visit in range(30):
        for minute in reversed(range(3 + visit % 5)):
            lines.append(f"v{visit},{minute},{minute},{'ab'[visit % 2]},s{visit % 3}")
    for row, line in (change or {}).items():
        lines[row] = line
    path.write_text("\n".join(lines) + "\n")
    return path


def test_rows_of_a_series_are_a_sample_in_the_order_of_their_column(tmp_path):
    made = fl.read(write(tmp_path / "a.csv"), client="site", sequences=SERIES)
    plan, x = made.plan, made.columns["x"]
    assert plan.channels == ("pulse",)
    assert x.shape == (30, 2, 7)
    for visit in range(30):
        steps = 3 + visit % 5
        assert np.allclose(x[visit, 0, :steps] * plan.std[0] + plan.mean[0], np.arange(steps), atol=1e-5)
    assert made.columns["y"].tolist() == [visit % 2 for visit in range(30)]
    short = fl.read(tmp_path / "a.csv", client="site", sequences={**SERIES, "steps": 4})
    assert short.columns["x"].shape == (30, 2, 4)
    assert "of longer ones the first 4 (" in " ".join(short.notes)


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        ({2: "v0,1,x,a,s0"}, {}, "a.csv: column 'pulse', row 2: 'x' is not a number: correct it"),
        ({2: "v0,1,,a,s0"}, {}, "a.csv: column 'pulse', row 2: the cell is empty"),
        (
            {2: "v0,1,1,b,s0"},
            {},
            "column 'label', row 2 is 'b', but another row of 'v0' has another value: give one per visit",
        ),
        (
            {2: "v0,1,1,a,s1"},
            {},
            "column 'site', row 2 is 's1', but another row of 'v0' has another value: give one per",
        ),
        ({}, {"sequences": {"series": "patient"}}, "a.csv has no column 'patient'"),
        ({}, {"sequences": {"series": "visit", "order": "hour"}}, "a.csv has no column 'hour'"),
        ({}, {"sequences": {"order": "minute"}}, "series is missing in sequences: add it"),
        ({}, {"ignore": ["pulse"]}, "a.csv has no channel besides 'visit' and 'label'"),
    ],
)
def test_what_does_not_fit_is_named_by_column_and_row(tmp_path, change, options, sentence):
    with pytest.raises(FedloomError, match=sentence) as caught:
        fl.read(write(tmp_path / "a.csv", change), **{"client": "site", "sequences": SERIES, **options})
    assert "\n" not in str(caught.value)
