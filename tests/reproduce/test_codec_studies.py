"""The study of codecs: its runs, its curves, and its table and findings from made-up numbers."""

from __future__ import annotations

import pytest

from fedloom.config.resolve import resolve
from fedloom.registry.kinds import CHANNEL_STEPS
from fedloom.reproduce.codec_studies import CODECS, FILTERS, LEARNS, PLAIN, codec_curve, codec_table, findings
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.results.history import History

NAMES = [*CODECS, *FILTERS]
SENT = {label: [8e6] * 3 if label == PLAIN else [2e6] * 3 for label in NAMES}


def test_every_step_that_codes_or_filters_is_compared(tmp_path):
    members = STUDIES["codecs"].members(StudyRequest(1, tmp_path))
    assert len({m.folder_name for m in members}) == len(members) == len(NAMES)
    used = {type(step) for member in members for step in resolve(dict(member.values)).channel}
    protecting = {CHANNEL_STEPS[name] for name in ("localnoise", "securesum", "privatesum", "ckks")}
    assert used == set(CHANNEL_STEPS.values()) - protecting


def test_a_curve_runs_along_the_bytes_that_were_sent_so_far():
    records = [
        {
            "round": number,
            "bytes_up": 3e6 * (number > 0),
            "metrics": {"global_model/global_test/accuracy": 0.1 * number},
        }
        for number in range(3)
    ]
    runs = [History({}, records), History({}, [{**one, "bytes_up": 2 * one["bytes_up"]} for one in records])]
    curve = codec_curve("x", 0, runs)
    assert curve.x.tolist() == [0.0, 4.5, 9.0]
    assert curve.mean.tolist() == [0.0, 0.1, 0.2]


def test_the_table_says_how_many_times_fewer_bytes_are_sent():
    table = codec_table({label: [0.4, 0.5] for label in NAMES}, SENT)
    assert table.rows[1] == (NAMES[1], "45.0 ± 7.1", "2.00", "4.0")


@pytest.mark.parametrize(("lost", "codec", "filtered"), [(0.01, True, False), (0.2, False, True)])
def test_findings_follow_the_numbers(lost, codec, filtered):
    values = {label: [value - lost * (label != PLAIN) for value in (0.4, 0.45, 0.5)] for label in NAMES}
    found = findings(values, SENT)
    learns = [codec if label in LEARNS else filtered for label in FILTERS]
    assert [one.holds for one in found] == [codec] * (len(CODECS) - 1) + learns
