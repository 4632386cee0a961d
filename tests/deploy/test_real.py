"""Real Flower on loopback, TLS and authenticated nodes: the simulator's numbers, and sites that misbehave."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: no real deployment is tried")

from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from support.deployment import (
    SITES,
    Deployment,
    Only,
    exclusions,
    final_row,
    records,
    simulate,
    start_deployment,
    values,
    without,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployment")]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with start_deployment(tmp_path_factory.mktemp("deployment")) as one:
        yield one


SEAMS: dict[str, Any] = {
    "aggregation": {"name": "trimmedmean", "share": 0.34},
    "channel": [{"name": "topk", "fraction": 0.2}],
    "adversary": {"name": "signflipping", "clients": [1]},
}


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("fedavg", {}),
        ("scaffold", {}),
        ("fedrep", {}),
        ("fedseq", {}),
        ("fedavg+fedpredict", {}),
        pytest.param("scaffold", SEAMS, id="scaffold-channel-aggregator-adversary"),
    ],
)
def test_a_deployed_run_gives_the_simulators_numbers(deployment: Deployment, method: str, more: dict[str, Any]) -> None:
    given = values(method, 3, **more)
    deployment.set_up(given)
    folder = deployment.run()
    there = simulate(given)
    assert not exclusions(folder)
    found = records(folder)
    assert [record["round"] for record in found] == [0, 1, 2, 3]
    for mine, theirs in zip(found, there.records, strict=True):
        assert (mine["selected"], mine["steps"]) == (theirs["selected"], theirs["steps"])
        assert mine["bytes_up"] == theirs["bytes_up"]
        assert mine["metrics"] == pytest.approx(theirs["metrics"], rel=1e-5)
    if there.row is not None:
        torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)
    assert all((deployment.folders[name] / "model" / "model.safetensors").is_file() for name in SITES)


def test_what_one_site_sends_wrongly_is_dropped_with_a_reason_and_the_others_go_on(deployment: Deployment) -> None:
    given = values("fedavg", 6)
    deployment.set_up(given, max_megabytes=1.0)
    honest, sent = deployment.sites["west"].answer, dict[int, bytes]()

    def hostile(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        if request.kind != "update":
            return honest(data)
        answer, tensors = unpack(honest(data), SiteAnswer, 1 << 30)
        sent[request.round] = pack(answer, tensors)
        match request.round:
            case 1:
                tensors["reply/row"][0, 3] = torch.nan
            case 2:
                tensors["reply/row"] = tensors["reply/row"][:, :-1]
            case 3:
                answer = answer.model_copy(update={"round": 2})
            case 4:
                tensors["more"] = torch.zeros(1 << 19)
            case 5:
                return sent[4]  # a replay of what it would have sent a round ago
        return pack(answer, tensors)

    deployment.answers["west"] = hostile
    folder = deployment.run()
    reasons = {
        number: reason for number, site, what, reason in exclusions(folder) if (site, what) == ("west", "update")
    }
    assert list(reasons) == [1, 2, 3, 4, 5]
    for number, words in enumerate(["not finite", "shape", "another round", "bytes", "replay"], start=1):
        assert words in reasons[number]
    there = simulate(given, selection=Only({number: [0, 1] for number in range(1, 6)}))
    assert records(folder)[-1]["round"] == 6
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


def test_a_site_that_sleeps_past_the_deadline_is_left_out_and_its_late_answer_dropped(deployment: Deployment) -> None:
    given = values("fedavg", 3, eval_every=0)
    deployment.set_up(given, deadline=4.0)
    honest = deployment.sites["south"].answer

    def sleepy(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        if (request.kind, request.round) == ("update", 1):
            time.sleep(6)
        return honest(data)

    deployment.answers["south"] = sleepy
    folder = deployment.run()
    left = exclusions(folder)
    assert (1, "south", "update", "no answer within 4 s") in left
    assert any("too late" in reason or "no answer" in reason for number, _, _, reason in left if number > 1)
    there = simulate(given, selection=without(left))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


def test_a_site_whose_node_is_killed_mid_round_and_comes_back_keeps_its_state(deployment: Deployment) -> None:
    """The message that died with the node is sent again, and builds on the same control variate."""
    given = values("scaffold", 3, eval_every=0)
    deployment.set_up(given)
    honest, killed = deployment.sites["north"].answer, list[int]()

    def unlucky(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        answer = honest(data)
        if (request.kind, request.round) == ("update", 2) and not killed:
            killed.append(2)
            deployment.disconnect("north")  # the work is done and kept, and the answer is lost
            deployment.connect("north")
        return answer

    deployment.answers["north"] = unlucky
    folder = deployment.run()
    assert killed
    there = simulate(given, selection=without(exclusions(folder)))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


def test_a_site_that_joins_at_round_3_takes_part_from_then_on(deployment: Deployment) -> None:
    given = values("fedavg", 8, eval_every=0)
    deployment.disconnect("west")
    deployment.set_up(given, join_timeout=6.0, min_clients=2)
    honest = deployment.sites["north"].answer

    def slow(data: bytes) -> bytes:
        time.sleep(1)
        return honest(data)

    deployment.answers["north"] = slow

    def watch(record: dict[str, object]) -> None:
        if record["round"] == 2:
            deployment.connect("west")

    folder = deployment.run(watch)
    took = {record["round"]: record["selected"] for record in records(folder)}
    assert took[1] == took[2] == [0, 1]
    assert took[8] == [0, 1, 2]
    there = simulate(given, selection=Only({number: ids for number, ids in took.items() if number}))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk: a full disk is not tried for real")
def test_a_full_disk_at_a_site_costs_its_updates_and_nobody_elses(deployment: Deployment) -> None:
    given = values("scaffold", 2, eval_every=0)
    deployment.set_up(given)
    disk = deployment.folders["south"] / "kept"
    if os.system(f"mount -t tmpfs -o size=16k tmpfs {disk}") != 0:  # noqa: S605
        pytest.skip("this machine mounts nothing: a full disk is not tried for real")
    try:
        folder = deployment.run()
    finally:
        os.system(f"umount {disk}")  # noqa: S605
    left = exclusions(folder)
    assert [(number, site) for number, site, _, _ in left] == [(1, "south"), (2, "south")]
    assert all("No space left" in reason for *_, reason in left)
    there = simulate(given, selection=Only({1: [0, 2], 2: [0, 2]}))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)
