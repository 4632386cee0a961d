"""What leaves a site and what reaches it, before anything does: found by playing the run dry, tensor by tensor.

Two rounds are played with the run's own method and selection, on a sample of each class per client and with one epoch:
names, types, shapes and counted bytes do not depend on the rest. (Two things can: which clients form a chain, and how
many entries of a sparse gradient are sent.) What the simulator counts is what the method's messages cost; the few
numbers that go with them, and the scoring of models, are listed besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import fedloom
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.deploy.explain.telling import told
from fedloom.deploy.explain.words import ASKED, DOWN, RESULT, SCORES, SCORING, SELECTION, UP, WORK, words_for
from fedloom.deploy.protocol.forms import first_two, on_few_samples
from fedloom.deploy.protocol.wire import Answer, Request, pack
from fedloom.deploy.settings import ServerSettings
from fedloom.engines.inline import Inline
from fedloom.rounds.jobs import ClientRuntime, Job, Tensors
from fedloom.rounds.loop import Composition, begin, play_prelude, play_round, score, scored
from fedloom.runs.api import completed, make_task, method_of
from fedloom.runs.config import RunConfig
from fedloom.runs.history import History
from fedloom.runs.runner import Prepared, prepare
from fedloom.training.threads import single_thread


@dataclass(frozen=True)
class Piece:
    """A tensor of one site's message or answer; ``counted`` says whether the simulator counts its bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    words: str
    counted: bool = True


@dataclass(frozen=True)
class Exchange:
    """A message to some sites, and what each of them answers."""

    round: int
    what: str
    clients: tuple[int, ...]
    down: tuple[Piece, ...]
    up: tuple[Piece, ...]

    @property
    def reaches(self) -> int:
        """Bytes that reach each of the sites."""
        return sum(piece.bytes for piece in self.down)

    @property
    def leaves(self) -> int:
        """Bytes that leave each of the sites."""
        return sum(piece.bytes for piece in self.up)


@dataclass(frozen=True)
class Explanation:
    """All that travels in a run.

    ``records`` are the simulator's own: of what comes before the first round, of the first and of the second.
    """

    method: str
    task: str
    rounds: int
    clients: int
    exchanges: tuple[Exchange, ...]
    records: tuple[Mapping[str, Any], ...]
    kept: tuple[str, ...]
    scorings: int
    final: tuple[Piece, ...]
    """What reaches a site at the end, to predict with."""
    model: int
    """Bytes of a whole model."""
    greeting: int
    header: int
    cross_site: bool = False
    evaluator: str | None = None

    def of(self, number: int, *what: str) -> list[Exchange]:
        """The exchanges of a round."""
        return [e for e in self.exchanges if e.round == number and e.what in what]

    def counted_up(self, number: int) -> int:
        """The bytes of all replies of a round, as they are sent."""
        return sum(len(e.clients) * p.bytes for e in self.of(number, WORK) for p in e.up if p.counted)

    def per_site(self, number: int, *what: str) -> tuple[int, int]:
        """The most bytes that reach and that leave one site in a round."""
        some = self.of(number, *what)
        totals = [
            (sum(e.reaches for e in some if c in e.clients), sum(e.leaves for e in some if c in e.clients))
            for c in range(self.clients)
        ]
        return max(down for down, _ in totals), max(up for _, up in totals)

    @property
    def later(self) -> int:
        """The round that stands for all later ones."""
        return 2 if self.of(2, WORK) else 1

    @property
    def whole_run(self) -> tuple[int, int]:
        """Bytes that reach and that leave a site that takes part in every round; headers not counted."""
        first, again, early = (self.per_site(n, SELECTION, WORK) for n in (1, self.later, 0))
        scoring = self.per_site(1, SCORING)
        down, up = (early[i] + first[i] + (self.rounds - 1) * again[i] + self.scorings * scoring[i] for i in (0, 1))
        down += sum(piece.bytes for piece in self.final)
        if self.cross_site:
            down, up = down + sum(p.bytes for p in self.final) + self.clients * self.model, up + self.model
        return down, up + self.greeting

    def lines(self) -> list[str]:
        """The explanation as text, a line each."""
        return told(self)


class _Witness(Inline):
    """Does the jobs and notes what went down and came up for each."""

    def __init__(self, runtime: ClientRuntime, travels: bool) -> None:
        super().__init__(runtime)
        self.travels, self.round, self.seen, self.kept = travels, 0, list[Exchange](), set[str]()

    def begin(self, round_number: int) -> None:
        self.round = round_number

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, Tensor]) -> list[Tensors]:
        results = super().run(jobs, message, kept)
        kind = jobs[0].kind
        if kind != "global":
            what = {"update": WORK, "ask": SELECTION, "score": SCORING}[kind]
            down = _down(message, self.travels and kind != "score")
            up = tuple(_up(kind, name, t, self.travels) for name, t in results[0].items() if not _stays(name))
            clients = tuple(client for job in jobs for client in job.ids)
            self.seen.append(Exchange(self.round, what, clients, down, up))
        self.kept |= {name.removeprefix("kept/") for result in results for name in result if _stays(name)}
        return results


def explain(source: RunConfig | Prepared, settings: ServerSettings | None = None) -> Explanation:
    """What leaves a site and what reaches it, of a run that was prepared (on its own task or a hollow one), or of a
    config, whose task is made for it."""
    if isinstance(source, RunConfig):
        config = completed(source)
        source = prepare(make_task(config), method_of(config), config)
    run, rounds, federation = source.composition, source.config.rounds, source.composition.task.federation
    with single_thread():
        witness, records, final = _played(run, min(rounds, 2))
    return Explanation(
        method=History(source.plain).label,
        task=run.task.name,
        rounds=rounds,
        clients=federation.clients,
        exchanges=tuple(witness.seen),
        records=tuple(records),
        kept=tuple(sorted(name for name in witness.kept if not name.endswith("/has"))),
        scorings=sum(scored(run, number) for number in range(1, rounds + 1)) + (run.eval_every > 0),
        final=final,
        model=run.task.initial_row().nbytes,
        greeting=len(pack(_greeting(), {})),
        header=len(pack(Request(run="0" * 32, ticket="0" * 32, kind="update", round=rounds, base="0" * 32), {})),
        cross_site=settings is not None and settings.cross_site,
        evaluator=None if settings is None else settings.evaluator,
    )


def explained(config: RunConfig, settings: ServerSettings | None = None) -> str:
    """The explanation of a run's config as a text."""
    return "\n".join(explain(config, settings).lines()) + "\n"


def _played(run: Composition, rounds: int) -> tuple[_Witness, list[Mapping[str, Any]], tuple[Piece, ...]]:
    """The run's first rounds without its work; with scoring after each, if the run ever scores."""
    often = min(run.eval_every, 1)
    dry = replace(run, setting=replace(run.setting, rounds=rounds), eval_every=often)
    witness, state = _Witness(on_few_samples(dry.runtime(), of_each_class), run.algorithm.travels), begin(dry)
    records: list[Mapping[str, Any]] = [play_prelude(dry, witness, state)]
    for _ in range(rounds):
        records.append(play_round(dry, witness, state))
        if often:
            score(dry, witness, state)
        if dry.algorithm.finished(state.server):
            break
    return witness, records, _down(run.algorithm.broadcast(state.server, [0]), counted=False)


def of_each_class(task: Task, positions: Tensor) -> Tensor:
    """The first two positions of a list and the first of each class: what a client says of its classes stays true."""
    if not task.classifies:
        return first_two(task, positions)
    labels: list[int] = task.targets(positions).tolist()
    firsts = {label: place for place, label in reversed(list(enumerate(labels)))}
    chosen = sorted({*range(len(labels[:2])), *firsts.values()})
    return positions[torch.tensor(chosen, dtype=torch.int64)]


def _down(message: Message, counted: bool) -> tuple[Piece, ...]:
    each = {name: tensor[0] for name, tensor in message.each.items()}
    parts: Iterable[tuple[str, Tensor]] = [*message.shared.items(), *each.items()]
    return tuple(_piece(name, tensor, words_for(name, DOWN), counted) for name, tensor in parts)


def _up(kind: str, name: str, tensor: Tensor, travels: bool) -> Piece:
    if name.startswith("reply/"):
        plain = name.removeprefix("reply/")
        return _piece(plain, tensor[0], words_for(plain, UP), travels)
    known = {"update": RESULT, "ask": ASKED, "score": SCORES}[kind]
    return _piece(name, tensor[0], words_for(name, known), False)


def _piece(name: str, tensor: Tensor, words: str, counted: bool) -> Piece:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Piece(name, tuple(tensor.shape), dtype, tensor.nbytes, words, counted)


def _stays(name: str) -> bool:
    return name.startswith("kept/")


def _greeting() -> Answer:
    """What a site's answer to the greeting looks like."""
    sizes: dict[str, str | int] = dict.fromkeys(("train", "valid", "test", "points"), 1000)
    about = {"name": "site-1", "fedloom": fedloom.__version__, "torch": str(torch.__version__), "digest": "0" * 32}
    return Answer(run="0" * 32, ticket="0" * 32, client=0, round=0, about={**about, **sizes})
