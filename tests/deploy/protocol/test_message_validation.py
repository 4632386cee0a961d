"""Every way in which an answer can be wrong has its reason, and an answer that is right is taken."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.channel.channel import Channel
from fedloom.config.resolve import resolve
from fedloom.conformance.any_method import task_for
from fedloom.core.message import Message
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.protocol.message_validation import LARGEST, ExpectedAnswer, check_answer
from fedloom.deploy.protocol.reply_forms import reply_form
from fedloom.deploy.protocol.score_validation import ScoreBounds
from fedloom.deploy.protocol.wire import RejectedMessage, SiteAnswer
from fedloom.deploy.settings import ServerSettings
from fedloom.rounds.jobs import Job
from fedloom.rounds.metrics import over_clients
from fedloom.runs.prepare import prepare

SERVER = ServerSettings(sites=["a", "b", "c"])
ANSWER = SiteAnswer(run="run", ticket="ticket", client=1, round=4)
RECEIVED = torch.tensor([1.0, 2.0, 3.0])
GOOD = {
    "reply/row": torch.tensor([[1.0, 2.0, 7.0]]),
    "steps": torch.tensor([12]),
    "samples": torch.tensor([30]),
    "bytes": torch.tensor([12]),
    "received/loss": torch.tensor([0.7], dtype=torch.float64),
    "trained/loss": torch.tensor([0.3], dtype=torch.float64),
}
CHANGES = partial(Channel(fl.FedAvg()).changes, message=Message({"row": RECEIVED}))
EXPECTED = ExpectedAnswer("run", "ticket", 1, 4, ClientSizes(30, 0, 8, 38), reply_form(GOOD), CHANGES)


def refusal(tensors=None, answer=ANSWER, expected=EXPECTED, server=SERVER, **changes) -> str:
    """Why an answer is not taken: the good one with changes; a tensor that is None is left out."""
    given = {**(GOOD if tensors is None else tensors), **changes}
    with pytest.raises(RejectedMessage) as why:
        check_answer(answer, {name: tensor for name, tensor in given.items() if tensor is not None}, expected, server)
    return str(why.value)


def without_form() -> ExpectedAnswer:
    return replace(EXPECTED, form=None)


@pytest.mark.parametrize("expected", [EXPECTED, without_form()], ids=["form", "no form"])
def test_a_good_answer_is_taken(expected):
    check_answer(ANSWER, GOOD, expected, SERVER)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"run": "another"}, "it answers another run"),
        ({"ticket": "of round 3"}, "it answers another request (of an old round, or replayed)"),
        ({"round": 3}, "it answers another round"),
        ({"client": 2}, "it answers for another client"),
        ({"error": "no\x1b[2J space\nleft"}, "the site reports an error: no [2J space left"),
    ],
)
def test_an_answer_to_something_else_is_refused(change, reason):
    assert refusal(answer=ANSWER.model_copy(update=change)) == reason


def test_a_silent_site_answers_with_its_flag_and_without_a_reply():
    flagged = {**GOOD, "silent": torch.zeros(1, dtype=torch.uint8), "bytes": torch.tensor([13])}
    expected = replace(EXPECTED, form=reply_form(flagged))
    check_answer(ANSWER, flagged, expected, SERVER)
    quiet = {**flagged, "silent": torch.ones(1, dtype=torch.uint8), "bytes": torch.tensor([1])}
    del quiet["reply/row"]
    check_answer(ANSWER, quiet, expected, SERVER)
    assert "reply/row is not part" in refusal({**quiet, "reply/row": GOOD["reply/row"]}, expected=expected)
    assert refusal(quiet) == "silent is not part of the expected reply"
    assert "must be 0 or 1" in refusal(quiet, expected=expected, silent=torch.full((1,), 2, dtype=torch.uint8))
    assert "reply/row is missing" in refusal(quiet, expected=expected, silent=flagged["silent"])


def test_a_replay_is_told_apart_before_anything_else_of_it_is_looked_at():
    old = ANSWER.model_copy(update={"ticket": "old", "round": 3, "client": 0, "error": "x"})
    assert "replay" in refusal({}, answer=old)


def test_a_sites_long_complaint_is_cut():
    assert len(refusal(answer=ANSWER.model_copy(update={"error": "x" * 2000}))) < 400


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"reply/row": None}, "reply/row is missing"),
        ({"trained/loss": None}, "trained/loss is missing"),
        ({"reply/more": torch.zeros(1)}, "reply/more is not part of the expected reply"),
        ({"kept/head": torch.zeros(1, 2)}, "kept/head is not part of the expected reply"),
        ({"reply/row": torch.zeros(1, 3, dtype=torch.float64)}, "reply/row is float64 instead of float32"),
        ({"steps": torch.zeros(1)}, "steps is float32 instead of int64"),
        ({"reply/row": torch.zeros(1, 4)}, "reply/row has the shape [1, 4] instead of [1, 3]"),
        ({"reply/row": torch.zeros(3)}, "reply/row has the shape [3] instead of [1, 3]"),
        ({"reply/row": torch.zeros(0, 3)}, "reply/row has the shape [0, 3] instead of [1, 3]"),
    ],
)
def test_an_answer_of_another_form_is_refused(changes, reason):
    assert refusal(**changes) == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kept/head": torch.zeros(1, 2)}, "kept/head is not part of the expected reply"),
        ({"reply/row": torch.zeros(2, 3)}, "reply/row must have one row, for one client"),
        ({"reply/row": torch.tensor(1.0)}, "reply/row must have one row, for one client"),
        ({"reply/row": torch.zeros(0, 3)}, "reply/row must have one row, for one client"),
        ({"steps": torch.tensor([1.5])}, "steps must be one whole number"),
        ({"steps": torch.tensor([True])}, "steps must be one whole number"),
        ({"samples": torch.tensor([[30, 30]])}, "samples must be one whole number"),
        ({"reply/row": torch.tensor([[math.nan]])}, "reply/row has numbers that are not finite"),
    ],
)
def test_without_a_known_form_what_holds_of_any_answer_is_still_asked(changes, reason):
    assert refusal(expected=without_form(), **changes) == reason


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reply_that_is_not_finite_is_refused(value):
    assert refusal(**{"reply/row": torch.tensor([[1.0, value, 2.0]])}) == "reply/row has numbers that are not finite"


@pytest.mark.parametrize("name", ["received/loss", "trained/loss"])
def test_a_score_may_be_missing_and_not_infinite(name):
    def answer_with(value: float) -> dict[str, torch.Tensor]:
        return {**GOOD, name: torch.tensor([value], dtype=torch.float64)}

    check_answer(ANSWER, answer_with(math.nan), EXPECTED, SERVER)
    assert refusal(answer_with(math.inf)) == f"{name} has numbers that are not finite"
    assert "larger than" in refusal(answer_with(1e200))


def test_the_largest_score_that_is_taken_makes_no_mean_overflow():
    values = torch.tensor([LARGEST, -LARGEST, 0.5], dtype=torch.float64)
    found = over_clients("client_model/own_test/loss", values, torch.tensor([10**9, 1, 1]))
    assert all(math.isfinite(value) for value in found.values())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (31, "samples is 31, but the site announced 30"),
        (0, "samples is 0; it must be between 1 and 1,000,000,000"),
        (-5, "samples is -5; it must be between 1 and 1,000,000,000"),
        (10**15, "samples is 1,000,000,000,000,000; it must be between 1 and 1,000,000,000"),
    ],
)
def test_samples_are_those_that_the_site_announced(said, reason):
    assert refusal(samples=torch.tensor([said])) == reason


def test_a_site_that_announced_too_many_samples_is_refused_too():
    most = SERVER.model_copy(update={"max_samples": 29})
    assert "between 1 and 29" in refusal(server=most)


@pytest.mark.parametrize(("name", "value"), [("steps", -1), ("steps", 10**9 + 1), ("bytes", -1), ("bytes", 25)])
def test_numbers_that_cannot_be_are_refused(name, value):
    assert refusal(**{name: torch.tensor([value])}).startswith(f"{name} must be between 0 and ")


def test_a_sparse_reply_may_cost_a_number_and_its_place():
    check_answer(ANSWER, {**GOOD, "bytes": torch.tensor([24])}, EXPECTED, SERVER)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0.01, 100), st.floats(-50, 50), st.floats(-50, 50))
def test_the_norm_bound_is_the_distance_from_what_was_received(most, x, y):
    moved = {**GOOD, "reply/row": (RECEIVED + torch.tensor([x, 0.0, y])).unsqueeze(0)}
    distance = float((moved["reply/row"][0].double() - RECEIVED.double()).norm())
    bounded = SERVER.model_copy(update={"max_norm": most})
    if distance <= most:
        check_answer(ANSWER, moved, EXPECTED, bounded)
    else:
        assert "moved by" in refusal(moved, server=bounded)


def test_the_norm_bound_holds_for_whatever_a_method_sends():
    message = Message({"row": RECEIVED, "body": RECEIVED})
    bounded, far = SERVER.model_copy(update={"max_norm": 5.0}), {k: v for k, v in GOOD.items() if k[:6] != "reply/"}
    for method, name, tensor in (
        (fl.SCAFFOLD(), "change", torch.tensor([[6.0, 0.0, 0.0]])),
        (fl.FedRep(), "body", RECEIVED[None] + 4),
        (fl.FedAvg(), "unheard-of", torch.tensor([[0.0, 5.1]])),
    ):
        changes = partial(Channel(method).changes, message=message)
        expected = replace(without_form(), changes=changes)
        assert "moved by" in refusal({**far, f"reply/{name}": tensor}, expected=expected, server=bounded)
        check_answer(ANSWER, {**far, f"reply/{name}": tensor}, expected, SERVER)


def test_a_statistic_is_not_bounded():
    expected = replace(without_form(), changes=partial(Channel(fl.FedProto()).changes, message=Message()))
    bounded = SERVER.model_copy(update={"max_norm": 5.0})
    check_answer(ANSWER, {"reply/prototypes": torch.full((1, 3, 2), 9.0)}, expected, bounded)


def test_a_reply_of_another_width_than_what_was_sent_is_refused():
    assert "cannot be decoded" in refusal({**GOOD, "reply/row": torch.ones(1, 7)}, expected=without_form())


def test_an_encoded_reply_is_decoded_before_its_norm_is_measured():
    channel, message = Channel(fl.FedAvg(), (fl.TopK(0.4),)), Message({"row": RECEIVED})
    expected = replace(without_form(), changes=partial(channel.changes, message=message))
    bounded = SERVER.model_copy(update={"max_norm": 5.0})
    places = torch.tensor([[0, 2]], dtype=torch.int32)
    for values, positions, said in (
        ([[3.0, 3.9]], places, None),
        ([[4.0, 3.9]], places, "moved by 5.59"),
        ([[0.0, 0.0]], places + 1, "positions must ascend from 0 to at most 2"),
    ):
        sent = {"reply/row": torch.tensor(values), "reply/row@0/positions": positions}
        if said is None:
            check_answer(ANSWER, sent, expected, bounded)
        else:
            assert said in refusal(sent, expected=expected, server=bounded)


def test_a_huge_update_is_refused_even_without_a_norm_bound():
    assert "larger than" in refusal(**{"reply/row": torch.full((1, 3), 1e31)})


SCORED = {name: torch.tensor([value], dtype=torch.float64) for name, value in (("loss", 3.5), ("score", 4), ("counts", 5))}  # fmt: skip # noqa: E501


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"counts": -5}, "counts must be whole numbers of at least 0"),
        ({"counts": 1e-20}, "counts must be whole numbers of at least 0"),
        ({"counts": 0}, "loss has a sum where counts is 0"),
        ({"counts": 0, "loss": 0}, "score has a sum where counts is 0"),
        ({"loss": math.nan}, "loss has numbers that are not finite"),
        ({"score": math.inf}, "score has numbers that are not finite"),
        ({"recall": math.inf}, "recall has numbers that are not finite"),
        ({"valid/counts": 2.5}, "valid/counts must be whole numbers of at least 0"),
        ({"valid/counts": 0, "valid/loss": 1.0}, "valid/loss has a sum where valid/counts is 0"),
        ({"valid/counts": 3, "valid/score": math.nan}, "valid/score has numbers that are not finite"),
    ],
)
def test_sums_of_scores_that_cannot_be_are_refused(changes, reason):
    wrong = {name: torch.tensor([value], dtype=torch.float64) for name, value in changes.items()}
    assert refusal({**SCORED, **wrong}, expected=without_form()) == reason


def test_scores_of_a_client_without_test_samples_are_taken():
    nothing = {name: torch.zeros(1, dtype=torch.float64) for name in SCORED}
    check_answer(ANSWER, SCORED, without_form(), SERVER)
    check_answer(ANSWER, {**nothing, "recall": torch.tensor([math.nan])}, without_form(), SERVER)


def test_scores_on_a_validation_part_are_of_one_client():
    several = {f"valid/{name}": torch.ones(2, dtype=torch.float64) for name in SCORED}
    reason = "valid/loss must have one row, for one client"
    assert refusal({**SCORED, **several}, expected=without_form()) == reason


def test_what_sites_send_at_the_end_is_taken_without_a_form():
    scores = torch.tensor([0.5, math.nan], dtype=torch.float64)  # a mean over no test sample
    check_answer(ANSWER, {}, without_form(), SERVER)
    check_answer(ANSWER, {"row": torch.zeros(9)}, without_form(), SERVER)
    check_answer(ANSWER, {"score": scores, "loss": scores}, without_form(), SERVER)
    check_answer(ANSWER, {name: sums[0] for name, sums in SCORED.items()}, without_form(), SERVER)
    assert refusal({"row": torch.tensor([math.nan])}, expected=without_form()) == "row has numbers that are not finite"


def test_what_a_selection_asks_for_is_never_missing():
    asked = {"loss": torch.tensor([math.nan]), "score": torch.tensor([1.0]), "samples": torch.tensor([30])}
    assert refusal(asked, expected=without_form()) == "loss has numbers that are not finite"


@pytest.mark.parametrize("method", [fl.FedAvg(), fl.SCAFFOLD(), fl.FedRep(), fl.FedProto(), fl.FedSGD(theta=1e-6)])
def test_what_methods_really_send_is_taken(method):
    task, work = task_for(method)
    run = prepare(task, method, resolve({"local": work, "rounds": 4}, "the test")).composition
    runtime, message = run.runtime(), method.broadcast(method.start(task), [1])
    for kind in ("update", "ask", "score"):
        result = runtime.do(Job(kind, 4, [1], [0], measure=True), message, {})  # type: ignore[arg-type]
        sent = {name: tensor for name, tensor in result.items() if not name.startswith("kept/")}
        changes = partial(runtime.channel.changes, message=message) if kind == "update" else None
        sizes, scores = ClientSizes.of(task.federation, 1), ScoreBounds.of(task)
        for form in (reply_form(result), None):
            check_answer(ANSWER, sent, ExpectedAnswer("run", "ticket", 1, 4, sizes, form, changes, scores), SERVER)
