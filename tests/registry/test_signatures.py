"""A function of a user's part that cannot be called is refused before anything is trained, with the line to write."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import fedloom as fl
from fedloom.core.aggregator import Aggregator
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import METHODS
from fedloom.registry.signatures import check_signatures


class Short(fl.FedAvg):
    def aggregate(self, server):
        return server


class Long(fl.FedAvg):
    def client_update(self, cohort, message, temperature):
        return super().client_update(cohort, message)


class Number(fl.FedAvg):
    broadcast = 3


class Wider(fl.FedAvg):
    def aggregate(self, server, replies, rate=0.5):
        return super().aggregate(server, replies)

    def broadcast(self, *arguments):
        return super().broadcast(*arguments)


@dataclass(frozen=True)
class Middle(Aggregator):
    def __call__(self, rows):
        return rows.median(0).values


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (
            Short(),
            "Short.aggregate(server) cannot be called with (server, replies): write def aggregate(self, server, "
            "replies).",
        ),
        (
            Long(),
            "Long.client_update(cohort, message, temperature) cannot be called with (cohort, message): write def "
            "client_update(self, cohort, message).",
        ),
        (Number(), "Number.broadcast is not a function: write def broadcast(self, server, ids)."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_method_with_a_wrong_signature_is_refused_before_anything_is_written(method, says, tmp_path):
    with pytest.raises(FedloomError) as why:
        fl.run("digits", method, rounds=1, out=tmp_path / "run")
    assert str(why.value) == says
    assert not (tmp_path / "run").exists()


def test_a_part_of_a_run_is_checked_in_the_same_way():
    with pytest.raises(FedloomError, match=r"Middle\(rows\)|Middle.__call__\(rows\) cannot be called with"):
        fl.run("digits", rounds=1, aggregation=Middle())


def test_more_arguments_with_defaults_are_fine():
    check_signatures(Wider(), Algorithm)


@pytest.mark.parametrize("name", METHODS)
def test_the_librarys_own_methods_pass(name):
    check_signatures(METHODS[name](), Algorithm)
