"""The ablation of FedFMRL: its runs, its tables and findings from made-up numbers, and the document's bytes."""

from __future__ import annotations

from math import nan

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedfmrl_ablation import (
    FEDAVG,
    ISOLATED,
    MEAN,
    MIX,
    MIX_FAST,
    MIX_MS,
    MIX_RAW,
    PLAIN_SERVER,
    SERVER,
    ablation_findings,
    ablation_members,
    ablation_table,
    difference_findings,
    document_bytes,
)
from fedloom.reproduce.fedfmrl_ablation import LABELS as COMMUNAL_LABELS
from fedloom.reproduce.fedfmrl_study_runs import FmrlResult
from fedloom.reproduce.study import BASELINE

LABELS = [member.label for member in ablation_members("cifar100")]
ALL = {label: [FmrlResult(0.3, 0.2, 2e6), FmrlResult(0.31, 0.21, 2e6), FmrlResult(0.32, 0.22, 2e6)] for label in LABELS}


def test_the_server_that_is_alone_trains_as_often_as_that_of_fedfmrl_and_its_clients_learn_nothing():
    members = {member.label: resolve(dict(member.values)) for member in ablation_members("cifar10")}
    mixing, alone = (method_from_config(members[label]) for label in (MIX_MS, SERVER))
    assert alone.server_epochs == (members[MIX_MS].task.clients - 1) * mixing.server_epochs
    assert (alone.o_diff, alone.server_lr) == (mixing.o_diff, mixing.server_lr)
    assert members[SERVER].local.epochs == 0
    assert members[MIX].local.epochs > 0


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers(better, holds):
    results = {**ALL, MIX: [FmrlResult(0.3 + 0.01 * n + better, 0.2, 1e6 * (n + 1)) for n in range(3)]}
    found = {one.says: one for one in ablation_findings(results)}
    assert found["Control: mixing is above the plain mean, without multi-scale."].holds == holds
    assert not found["mix sends fewer bytes per round than FedAvg."].holds  # 2 MB both
    assert "equal to the last digit" in found["Control: the server's model gains from clients."].ours
    assert not found["Control: the server's model gains from clients."].holds


def test_what_the_document_says_of_o_diff_follows_the_numbers():
    def found(server, clients):
        results = {
            **ALL,
            PLAIN_SERVER: [FmrlResult(0.0, one + server, 2e6) for one in (0.2, 0.21, 0.22)],
            MIX_FAST: [FmrlResult(clients, 0.2, 2e6)] * 3,
        }
        return [one.holds for one in difference_findings(results)]

    assert found(server=-0.1, clients=0.312) == [True, True]
    assert found(server=0.1, clients=0.35) == [False, False]


def test_the_earlier_reading_is_beside_the_present_one_and_so_are_communal_labels_alone():
    methods = {m.label: method_from_config(resolve(dict(m.values))) for m in ablation_members("cifar10")}
    mix, earlier = methods[MIX], methods[MIX_RAW]
    assert (mix.alpha_loss, mix.alpha_drawn) == ("softmax", "once")
    assert (earlier.alpha_loss, earlier.alpha_drawn) == ("raw", "every-step")
    assert methods[COMMUNAL_LABELS].communal_epochs == mix.epochs


def test_the_table_has_a_row_per_method_and_no_server_where_there_is_none():
    results = {**ALL, ISOLATED: [FmrlResult(0.3, nan, 0.0, baseline=0.1)] * 3}
    rows = {row[0]: row for row in ablation_table("cifar100", results).rows}
    assert list(rows) == [*LABELS, BASELINE]
    assert rows[BASELINE] == (BASELINE, "10.0 ± 0.0", "10.0 ± 0.0", "–", "–")
    assert rows[ISOLATED] == (ISOLATED, "30.0 ± 0.0", "–", "23.29 / –", "0.00 MB")
    assert rows[SERVER][1] == "–"
    assert rows[MEAN][2] == "–"
    assert rows[FEDAVG][4] == "2.00 MB"


def test_the_documents_bytes_by_arithmetic():
    """Section 10.3 of the specification: 4.0 MB of outputs and about 127 MB with strips beside 3.4 MB of weights."""
    table = document_bytes()
    assert "3.40 MB" in table.title
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["cifar100", "outputs"] == ("4.00 MB", "1.2")
    assert rows["cifar100", "outputs and strips"] == ("126.88 MB", "37.3")
    assert rows["cifar10", "outputs"] == ("0.40 MB", "0.1")
