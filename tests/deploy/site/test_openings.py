"""A lying server that wants one site's update out of secure sums with default settings, and what sites refuse it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedloom.core.errors import Abandoned, FedloomError
from fedloom.core.message import Message, message_digest
from fedloom.deploy.protocol.sum_requests import PHASE
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.site.openings import FILE, MOST_LOOKS, Openings
from fedloom.deploy.site.policy import Refused
from fedloom.deploy.site.sums import SiteSums
from fedloom.rounds.jobs import Job
from fedloom.secure.sum_step import ROWS, Opening, SumSession, Total
from support.local_transport import Local, Plan, quick, simulate

pytestmark = pytest.mark.usefixtures(quick.__name__)
ALL, BUT_SOUTH, SOUTH, WEST = [0, 1, 2], [0, 2], 1, 2
SESSION = SumSession("plan-1", 1, 0, (0, 1, 2), 500, b"model")
EVERYBODY, TWO = Opening((0, 1, 2)), Opening((0, 2))


@cache
def plan(spec: str = "fedavg", step: str = "securesum") -> Plan:
    return Plan.of(spec, channel=[{"name": step}])


class LyingServer:
    """A server that asks its sites for any sum that it likes."""

    def __init__(self, folder: Path, made: Plan) -> None:
        self.local = Local(made, folder)
        self.local.certify()
        self.prepared, self.engine = self.local.server()
        self.start = made.blueprint.initial

    def open_sum(
        self,
        ids: list[int],
        row: Tensor | None = None,
        number: int = 1,
        turn: int = 0,
        run: str = "",
        most: int = 2000,
        **more: Tensor,
    ) -> Tensor:
        """The opened sum of some sites' changes, each times its samples; an error if they refuse."""
        sums = self.prepared.composition.sums
        assert sums is not None
        told = Message(more if "body" in more else {"row": self.start if row is None else row, **more})
        session = SumSession("", number, turn, tuple(ids), most, message_digest(told.shared))
        jobs = [Job("update", number, [client], [place], False, turn, session) for place, client in enumerate(ids)]
        self.engine.name = self.local.plan.blueprint.plan_digest + run
        summed = self.engine.sum(jobs, told, {}, sums.step, session)
        return sums.step.decode_total(summed.total, session).values * session.most

    @property
    def refusals(self) -> str:
        return " ".join(one["reason"] for one in self.engine.take_exclusions())


def changed_in_one_bit(row: Tensor) -> Tensor:
    other = row.clone()
    other[0] = torch.nextafter(other[0], torch.tensor(torch.inf))
    return other


@pytest.mark.parametrize(
    "lie",
    [
        {"turn": 1},
        {"turn": 15},
        {"number": 2},
        {"run": "-2"},
        {},
        {"bit": True},
        {"bit": True, "turn": 1},
        {"bit": True, "run": "-2"},
    ],
    ids=str,
)
@pytest.mark.parametrize("step", ["securesum", "ckks"])
def test_two_sums_that_differ_in_one_site_are_not_opened_whatever_the_server_calls_them(tmp_path, lie, step):
    """Subtracted, they are the update of that site: at a cosine of 0.995 when turns were the server's word."""
    if step == "ckks":
        pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    server = LyingServer(tmp_path, plan(step=step))
    server.open_sum(ALL)
    asked = {key: value for key, value in lie.items() if key != "bit"}
    row = changed_in_one_bit(server.start) if "bit" in lie else server.start
    with pytest.raises(Abandoned):
        server.open_sum(BUT_SOUTH, row, **asked)
    assert "refused by the site's policy" in server.refusals


def test_sites_that_did_not_open_a_homomorphic_sum_do_not_open_another_one_alone(tmp_path):
    """Any one site has the key: what it did not see itself, the others' confirmations tell it."""
    pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    server = LyingServer(tmp_path, plan(step="ckks"))
    honest = server.local.transport.sites[WEST]

    def asleep(data: bytes) -> bytes:
        phase = unpack(data, SiteRequest, 1 << 40)[1].get(PHASE, torch.zeros(0))
        return b"" if bytes(phase.int().tolist()) == b"confirm" else honest(data)

    server.local.transport.sites[WEST] = asleep
    server.open_sum(ALL)
    server.local.transport.sites[WEST] = honest
    with pytest.raises(FedloomError, match="0 clients opened the sum"):
        server.open_sum(BUT_SOUTH)
    assert "1 of 2 clients have confirmed" in server.refusals


def test_a_round_that_the_plan_does_not_have_is_not_played(tmp_path):
    server = LyingServer(tmp_path, plan())
    with pytest.raises(Abandoned):
        server.open_sum(ALL, number=0)
    assert "asks sites to train in its rounds only" in server.refusals


def test_almost_the_same_model_in_the_next_round_is_the_servers_word(tmp_path):
    """What no site can see, and the docs say: only noise hides a site from a server that lies about the model."""
    server = LyingServer(tmp_path, plan())
    everybody = server.open_sum(ALL)
    others = server.open_sum(BUT_SOUTH, changed_in_one_bit(server.start), number=2)
    alone = simulate(Plan.of("fedavg", rounds=1), {1: [SOUTH]})
    assert torch.cosine_similarity(everybody - others, alone.row - server.start, dim=0) > 0.99


@pytest.mark.parametrize("run", ["", "-2"])
def test_the_very_same_sum_is_opened_again_after_crashes_of_server_and_sites(tmp_path, run):
    server = LyingServer(tmp_path, plan())
    first = server.open_sum(ALL)
    server.local.sites = {client: server.local.site(client) for client in ALL}
    server.prepared, server.engine = server.local.server()
    assert torch.equal(server.open_sum(ALL, run=run), first)


def test_a_server_cannot_make_a_site_train_from_another_state_of_its_own(tmp_path):
    """With its variate and without it, everything else alike, two sums would tell the variate of one site."""
    made = plan("scaffold")
    server = LyingServer(tmp_path, made)
    variate = torch.zeros_like(server.start)
    server.open_sum(ALL, c=variate)
    server.engine.tickets.begin(2)
    assert set(server.engine.tickets.state) == set(ALL)
    server.open_sum(ALL, server.start + 1e-3, number=2, c=variate)
    server.engine.tickets.begin(2)
    server.engine.tickets.state.pop(SOUTH)
    with pytest.raises(FedloomError):
        server.open_sum(ALL, server.start + 1e-3, number=2, c=variate)
    assert "or from another state of its own" in server.refusals


def test_noisy_sums_of_a_new_run_are_paid_for_and_those_of_the_same_run_are_not_opened_with_others(tmp_path):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    server = LyingServer(tmp_path, Plan.of("fedavg", channel=[{"name": "privatesum", "noise": 4.0, "clip": 1.0}]))
    first = server.open_sum(ALL)
    assert not torch.equal(server.open_sum(ALL), first)  # the noise is new
    with pytest.raises(Abandoned):
        server.open_sum(BUT_SOUTH)
    assert "refused by the site's policy" in server.refusals
    server.open_sum(BUT_SOUTH, run="-2")
    assert server.local.sites[0].privacy.uses == {"sum": 4}


def openings(folder: Path, noisy: bool = False, session: SumSession = SESSION) -> Openings:
    found = Openings.read(folder)
    found.admit_row(session, b"state", noisy)
    return found


def test_a_turn_is_opened_once_over_restarts(tmp_path):
    openings(tmp_path).admit(SESSION, EVERYBODY, False)
    openings(tmp_path).admit(SESSION, EVERYBODY, False)
    for other in (replace(SESSION, ids=(0, 2)), replace(SESSION, most=501), replace(SESSION, run="plan-2", ids=(0, 2))):
        with pytest.raises(Refused, match="a sum of round 1 be opened with other sites"):
            openings(tmp_path, session=other).admit(other, EVERYBODY, False)
    for what in (TWO, Opening((0, 1, 2), b"another total")):
        with pytest.raises(Refused, match="a sum of round 1 be opened with other sites"):
            openings(tmp_path).admit(SESSION, what, False)


def test_one_model_is_opened_with_the_same_clients_in_every_round_run_and_plan(tmp_path):
    openings(tmp_path).admit(SESSION, EVERYBODY, False)
    for other in (replace(SESSION, round=2), replace(SESSION, turn=1), replace(SESSION, run="another plan")):
        with pytest.raises(Refused, match="of the model of round"):
            openings(tmp_path, session=other).admit(other, TWO, False)
        openings(tmp_path, session=other).admit(other, EVERYBODY, False)
    later = replace(SESSION, round=3, message=b"the next model")
    openings(tmp_path, session=later).admit(later, TWO, False)


def test_where_no_model_comes_down_one_state_is_opened_once_and_the_next_round_has_another(tmp_path):
    """Distillation sends nothing down before the first sum: by the rule of models its second round was refused."""

    def opened(session: SumSession, state: bytes, what: Opening) -> None:
        found = Openings.read(tmp_path, by_state=True)
        found.admit_row(session, state, False)
        found.admit(session, what, False)

    opened(SESSION, b"state", EVERYBODY)
    opened(replace(SESSION, round=2), b"the next state", TWO)
    for other in (replace(SESSION, round=3), replace(SESSION, run="another plan")):
        with pytest.raises(Refused, match="of the model of round"):
            opened(other, b"state", TWO)


def test_of_one_turn_rows_are_made_of_one_model_and_one_state(tmp_path):
    openings(tmp_path)
    with pytest.raises(Refused, match="another model, or from another state"):
        Openings.read(tmp_path).admit_row(replace(SESSION, message=b"model."), b"state", False)
    with pytest.raises(Refused, match="another model, or from another state"):
        Openings.read(tmp_path).admit_row(replace(SESSION, run="plan-2"), b"another", False)


def test_where_a_budget_pays_for_noise_rounds_of_another_run_are_others(tmp_path):
    openings(tmp_path, noisy=True).admit(SESSION, EVERYBODY, True)
    again = replace(SESSION, run="plan-2", ids=(0, 2))
    openings(tmp_path, noisy=True, session=again).admit(again, TWO, True)
    with pytest.raises(Refused):
        openings(tmp_path, noisy=True).admit(SESSION, TWO, True)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"a": "b"}', b'{"a": {"model": 1, "state": ""}}'])
def test_a_damaged_file_is_an_error(tmp_path, text):
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(FedloomError, match="is damaged"):
        Openings.read(tmp_path)


@pytest.mark.parametrize("step", ["securesum", "ckks"])
def test_a_site_that_has_lost_what_it_opened_trains_no_more(tmp_path, step):
    if step == "ckks":
        pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    server = LyingServer(tmp_path, plan(step=step))
    server.open_sum(ALL)
    for name in ("north", "west"):
        (tmp_path / name / FILE).unlink()
    server.local.sites = {client: server.local.site(client) for client in ALL}
    with pytest.raises(Abandoned):
        server.open_sum(BUT_SOUTH)
    assert "opened.json is missing, although this site has trained in this plan" in server.refusals


# -- what attackers found


def test_one_model_is_not_opened_with_another_largest_weight_in_another_round(tmp_path):
    """The largest weight caps weights: n of them are n equations for n updates of one model."""
    openings = Openings.read(tmp_path)
    later = replace(SESSION, round=2, most=200)
    for session in (SESSION, later):
        openings.admit_row(session, b"", noisy=False)
    openings.admit(SESSION, EVERYBODY, noisy=False)
    with pytest.raises(Refused, match="other sites, weights or state"):
        openings.admit(later, EVERYBODY, noisy=False)


def test_one_model_is_not_opened_from_another_state_and_nothing_that_was_kept_is_forgotten(tmp_path):
    openings = Openings.read(tmp_path)
    later = replace(SESSION, round=2)
    openings.admit_row(SESSION, b"", noisy=False)
    openings.admit(SESSION, EVERYBODY, noisy=False)
    with pytest.raises(Refused, match="as if it had not"):
        openings.admit_row(later, b"", noisy=False, forgets=True)
    openings.admit_row(SESSION, b"", noisy=False, forgets=True)  # the same turn once more, as after a crash
    openings.admit_row(later, b"kept", noisy=False)
    with pytest.raises(Refused, match="other sites, weights or state"):
        openings.admit(later, EVERYBODY, noisy=False)


def test_a_site_looks_into_few_sums_of_a_turn_also_after_restarts(tmp_path):
    """Every look that is refused may tell a bit of what a row hides."""
    Openings.read(tmp_path).admit_row(SESSION, b"", noisy=False)
    for _ in range(MOST_LOOKS):
        Openings.read(tmp_path).admit_look(SESSION, noisy=False)
    with pytest.raises(Refused, match="looks into no more"):
        Openings.read(tmp_path).admit_look(SESSION, noisy=False)


@pytest.mark.parametrize("step", ["securesum", "ckks"])
def test_a_weight_below_a_sites_samples_and_a_tensor_that_nobody_uses_are_refused(tmp_path, step):
    server = LyingServer(tmp_path, plan(step=step))
    with pytest.raises(Abandoned):
        server.open_sum(ALL, unused=torch.zeros(3))
    assert "unused is nothing that the method of the run sends to sites" in server.refusals
    fewer = int(server.local.sites[0].runtime.training.task.federation.train.sizes.min()) - 1
    with pytest.raises(Abandoned):
        server.open_sum(ALL, most=fewer)
    assert "the largest weight of the sum is below its own samples" in server.refusals


def test_whether_training_fails_is_not_told_of_a_second_model(tmp_path):
    """A model that overflows where one pixel is ever dark tells a bit about the data, and a server could send many."""
    server = LyingServer(tmp_path, plan())
    too_large = torch.full_like(server.start, 1e38)
    server.open_sum(ALL)
    with pytest.raises(Abandoned):
        server.open_sum(ALL, too_large)
    assert "it has trained another model" in server.refusals
    assert "not finite" not in server.refusals
    trained = [one for one in server.local.transport.sent if one.request.kind == "update"]
    ids, most = torch.tensor(ALL), torch.tensor(2000)
    shared = {"shared/row": too_large}
    stranger = {"sum/ids": ids, "sum/most": most, "sum/message": digest_tensor(too_large), "sum/stage": letters(ROWS)}
    data = pack(trained[0].request.model_copy(update={"ticket": "new"}), shared | stranger)
    answer, _ = unpack(server.local.sites[SOUTH].answer(data), SiteAnswer, 1 << 40)
    assert "not finite" not in answer.error


def test_what_sites_keep_lets_one_of_them_stand_out_in_a_sum_of_all(tmp_path, monkeypatch):
    """What no site can see, and the docs say: one site's head has grown by a model that only it was sent before."""
    made = plan("fedper")
    server, own = LyingServer(tmp_path, made), dict[int, Tensor]()
    transport, answer = server.local.transport, SiteSums.answer

    def watch(sums: SiteSums, session: SumSession, phase: str, got: Any, row: Tensor | None = None) -> Any:
        if sums.client == SOUTH and row is not None:
            own[session.round] = row
        return answer(sums, session, phase, got, row)

    monkeypatch.setattr(SiteSums, "answer", watch)
    body = server.start[: 8 * 64 + 8]  # the hidden layer
    honest = dict(transport.sites)
    transport.sites |= {client: but_training(honest[client]) for client in BUT_SOUTH}
    with pytest.raises(Abandoned, match="1 of 3 clients have sent their rows"):
        server.open_sum(ALL, body=300 * body)
    transport.sites |= honest
    (ticket,) = [one.request.ticket for one in transport.sent if (one.node, one.request.kind) == (SOUTH, "update")]
    server.engine.tickets.state[SOUTH] = ticket
    total = server.open_sum(ALL, number=2, body=body)
    step = made.runtime.sum_step
    assert step is not None
    alone = step.decode_total(Total(own[2], (SOUTH,)), replace(SESSION, ids=tuple(ALL))).values
    assert torch.cosine_similarity(total, alone, dim=0) > 0.99


def but_training(answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """A site whose updates get lost."""
    return lambda data: b"" if unpack(data, SiteRequest, 1 << 40)[0].kind == "update" else answer(data)


def letters(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def digest_tensor(row: Tensor) -> Tensor:
    return torch.tensor(list(message_digest({"row": row})), dtype=torch.uint8)
