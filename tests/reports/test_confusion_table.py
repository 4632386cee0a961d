"""Recall, precision and the matrix are those of the counts, computed by hand."""

from __future__ import annotations

from fedloom.reports.confusion_table import MOST_IN_MATRIX, confusion_tables
from support.histories import history


def test_recall_precision_and_the_commonest_mistake_by_hand() -> None:
    run = history([0.1, 0.6])
    run.partition["class_names"] = ["cat", "<dog>", "owl"]
    run.confusion = [[3, 1, 0], [0, 0, 0], [1, 1, 2]]
    text = "".join(confusion_tables({"fedavg": [run]}))
    assert "<td><bdi>cat</bdi></td><td>4</td><td>75.0 %</td><td>75.0 %</td><td><bdi>&lt;dog&gt;</bdi> (1)</td>" in text
    assert "<td><bdi>&lt;dog&gt;</bdi></td><td>0</td><td>–</td><td>0.0 %</td><td>–</td>" in text
    assert "<td><bdi>owl</bdi></td><td>4</td><td>50.0 %</td><td>100.0 %</td><td><bdi>cat</bdi> (1)</td>" in text
    assert '<td style="--share: 0.750">3</td><td style="--share: 0.250">1</td>' in text


def test_seeds_are_added_up() -> None:
    one, other = history([0.1, 0.6]), history([0.1, 0.6])
    one.confusion, other.confusion = [[1, 0], [0, 2]], [[0, 4], [0, 3]]
    text = "".join(confusion_tables({"fedavg": [one, other]}))
    assert "<td><bdi>0</bdi></td><td>5</td><td>20.0 %</td><td>100.0 %</td>" in text


def test_many_classes_have_no_matrix_and_runs_without_counts_no_section() -> None:
    run = history([0.1, 0.6])
    assert not list(confusion_tables({"fedavg": [run]}))
    run.confusion = [[1] * (MOST_IN_MATRIX + 1)] * (MOST_IN_MATRIX + 1)
    text = "".join(confusion_tables({"fedavg": [run]}))
    assert 'class="matrix"' not in text
    assert "Recall" in text
