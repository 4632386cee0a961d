"""What leaves a site and what reaches it, in words and bytes, before anything is sent (``fedloom deploy explain``).

A dry run finds it out: two rounds with the run's own method and selection, with one sample of each class per client and
one epoch. Names, types, shapes and counted bytes do not depend on the rest. (Two things can: which clients form a
chain, and how many entries of a sparse gradient are sent.) The simulator counts the bytes of the method's messages; the
few numbers that go with them, and the evaluation of models, are listed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import fedloom
from fedloom.channel.model_differences import DELTA, KEPT
from fedloom.config.resolve import method_from_config, task_from_config
from fedloom.config.schema import RunConfig
from fedloom.core.algorithm import Algorithm, exchanges
from fedloom.core.declarations import declaration_of, default_declaration
from fedloom.core.facts import Fact, holds
from fedloom.core.kept_rows import KeptRows
from fedloom.core.message import Message
from fedloom.core.relays import RELAY
from fedloom.core.task import Task
from fedloom.deploy.explanation import SCORING, SELECTION, WORK, Exchange, Explanation, SentTensor
from fedloom.deploy.protocol.reply_forms import first_two, with_few_samples
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack
from fedloom.deploy.server_limits import limit_sentences
from fedloom.deploy.settings import ServerSettings
from fedloom.engines.inline import Inline
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.composition import Composition
from fedloom.rounds.evaluation import is_scored, score_models
from fedloom.rounds.jobs import SILENT, Job, Tensors, split_kept
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import Prepared, prepare
from fedloom.runs.results.history import History
from fedloom.secure.sum_step import SumSession, SumStep
from fedloom.secure.sums import LOST, SUM, Summed
from fedloom.tasks.builder import task_builder
from fedloom.training.threads import single_thread

RESULT = {
    "steps": "number of its training steps",
    "samples": "number of its training samples",
    "bytes": "the counted bytes of its reply",
    SILENT: "1 if it sends nothing else",
    "received/loss": "received model's mean loss, own test part",
    "received/score": "received model's mean score, own test part",
    "trained/loss": "trained model's mean loss, own test part",
    "trained/score": "trained model's mean score, own test part",
}
SCORES = {
    "loss": "its model's summed loss, own test part",
    "score": "its model's summed score, own test part",
    "counts": "number of samples in these sums",
    "valid/loss": "its model's summed loss, own validation part",
    "valid/score": "its model's summed score, own validation part",
    "valid/counts": "number of samples in these sums",
    "global": "its model's mean score, global test set",
    "recall": "its score on the class withheld from it",
}
ASKED = {
    "loss": "mean loss, own validation or training part",
    "score": "mean score, own validation or training part",
    "samples": "number of its training samples",
}


class _RecordingEngine(Inline):
    """The inline engine, which records what goes down to clients and comes up from them."""

    def __init__(self, runtime: ClientRuntime, communicates: bool) -> None:
        super().__init__(runtime)
        self.communicates, self.round, self.seen, self.kept = communicates, 0, list[Exchange](), set[str]()

    def begin(self, round_number: int) -> None:
        self.round = round_number

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]) -> list[Tensors]:
        results = super().run(jobs, message, kept)
        kind = jobs[0].kind
        if kind != "global":
            what = {"update": WORK, "ask": SELECTION, "score": SCORING}[kind]
            down = _down(self.runtime.algorithm, message, self.communicates and kind != "score")
            up = tuple(self._up(kind, name, tensor, message) for name, tensor in split_kept(results[0])[0].items())
            clients = tuple(client for job in jobs for client in job.ids)
            self.seen.append(Exchange(self.round, what, clients, down, up))
        self.kept |= {name for result in results for name in split_kept(result)[1]}
        return results

    def sum(
        self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows], step: SumStep, session: SumSession
    ) -> Summed:
        summed = super().sum(jobs, message, kept, step, session)
        seen, clients = self.seen.pop(), len(session.ids)
        plain = tuple(tensor for tensor in seen.up if tensor.name not in (SUM, LOST))
        up, down = (torch.zeros(count // clients, dtype=torch.uint8) for count in (summed.bytes_up, summed.bytes_down))
        hidden = _sent_tensor(SUM, up, "what it sends, weighted and hidden: only the sum over sites is read", True)
        others = _sent_tensor(SUM, down, "what other sites send it for the sum", True)
        self.seen.append(replace(seen, up=(hidden, *plain), down=(*seen.down, others)))
        return summed

    def _up(self, kind: str, name: str, tensor: Tensor, message: Message) -> SentTensor:
        """What a client's tensor is: a measurement of the runtime, or a reply as its method declares it."""
        if name.startswith("reply/"):
            plain, at, extra = name.removeprefix("reply/").partition("@")
            if plain == RELAY and self.runtime.hides_models:
                return _sent_tensor(plain, tensor[0], "the model that the site trained, sealed", self.communicates)
            about = declaration_of(self.runtime.algorithm, plain, message).about
            if at:
                about = f"sent beside {plain} by the channel"
            elif self.runtime.steps and plain in self.runtime.channel.encoded_names({plain: tensor}, message):
                about = f"{about}, through the channel"
            return _sent_tensor(plain + at + extra, tensor[0], about, self.communicates)
        known = {"update": RESULT, "ask": ASKED, "score": SCORES}[kind]
        return _sent_tensor(name, tensor[0], known.get(name) or _metric_words(name), False)


def _metric_words(name: str) -> str:
    """What a client's tensor of a metric is: sums, or the metric of a model on some test set."""
    what, _, metric = name.rpartition("/")
    if what in ("metric", "valid/metric"):
        return f"sums that {metric} is made of, own {'test' if what == 'metric' else 'validation'} part"
    model = {"received/metric": "received model's", "trained/metric": "trained model's", "global": "its model's"}
    where = "global test set" if what == "global" else "own test part"
    return f"{model[what]} {metric}, {where}" if what in model else name


def explain(source: RunConfig | Prepared, settings: ServerSettings | None = None) -> Explanation:
    """What leaves a site and what reaches it in a run.

    Args:
        source: A prepared run (with data, or the server's without them), or a config, whose task is built.
        settings: The server's settings; they say whether there is an evaluator and a cross-site evaluation.
    """
    if isinstance(source, RunConfig):
        task, algorithm = task_from_config(source), method_from_config(source)
        task_builder(source.task.name).deployment.hide_from_sites(task, algorithm)
        source = prepare(task, algorithm, source)
    run, rounds, federation = source.composition, source.config.rounds, source.composition.task.federation
    with single_thread():
        engine, records, final = _dry_run(run, min(rounds, 2))
    return Explanation(
        method=History(source.plain).label,
        task=run.task.name,
        rounds=rounds,
        clients=federation.clients,
        exchanges=tuple(engine.seen),
        records=tuple(records),
        kept={name: _kept_words(run, name) for name in sorted(engine.kept)},
        scorings=sum(is_scored(run, number) for number in range(1, rounds + 1)) + (run.eval_every > 0),
        final=final,
        model=run.task.initial_row().nbytes,
        greeting=len(pack(_greeting_answer(), {})),
        header=len(pack(SiteRequest(run="0" * 32, ticket="0" * 32, kind="update", round=rounds, base="0" * 32), {})),
        cross_site=settings is not None and settings.cross_site,
        evaluator=None if settings is None else settings.evaluator,
        sum_step=None if run.sums is None else run.sums.step,
        hides_models=run.hides_models,
        limits=() if settings is None else limit_sentences(settings, run),
    )


def _dry_run(run: Composition, rounds: int) -> tuple[_RecordingEngine, list[Mapping[str, Any]], tuple[SentTensor, ...]]:
    """Play the first rounds with almost no work; evaluate after each, if the run evaluates at all."""
    often = min(run.eval_every, 1)
    dry = replace(run, setting=replace(run.setting, rounds=rounds), eval_every=often)
    engine, state = (
        _RecordingEngine(with_few_samples(dry.runtime(), one_of_each_class), exchanges(run.algorithm)),
        initial_state(dry),
    )
    records: list[Mapping[str, Any]] = [play_prelude(dry, engine, state)]
    for _ in range(rounds):
        records.append(play_round(dry, engine, state))
        if often:
            score_models(dry, engine, state)
        if dry.algorithm.is_finished(state.server):
            break
    return engine, records, _down(run.algorithm, run.algorithm.broadcast(state.server, [0]), counted=False)


def one_of_each_class(task: Task, positions: Tensor) -> Tensor:
    """The first two positions of a list and the first of each class: a client's statements on classes stay true."""
    if not task.classifies:
        return first_two(task, positions)
    labels: list[int] = task.targets(positions).tolist()
    firsts = {label: place for place, label in reversed(list(enumerate(labels)))}
    chosen = sorted({*range(len(labels[:2])), *firsts.values()})
    return positions[torch.tensor(chosen, dtype=torch.int64)]


def _down(algorithm: Algorithm, message: Message, counted: bool) -> tuple[SentTensor, ...]:
    each = {name: tensor[0] for name, tensor in message.each.items()}
    parts: Iterable[tuple[str, Tensor]] = [*message.shared.items(), *each.items()]
    return tuple(_sent_tensor(name, tensor, _received_words(algorithm, name), counted) for name, tensor in parts)


def _received_words(algorithm: Algorithm, name: str) -> str:
    """What a tensor is that a site gets."""
    if name == RELAY and not holds(Fact.READABLE, algorithm):
        return "the model of the site before it, sealed"
    if "@" in name:
        return "the difference to the model that it has" if name.endswith(DELTA) else "sent beside a difference"
    return algorithm.receives.get(name, default_declaration(name, False)).about


def _kept_words(run: Composition, name: str) -> str:
    """What stays at a site under a name, as the method, a stage or the channel says."""
    if name.startswith(KEPT):
        return "the model that it received last"
    if name.startswith("channel/"):
        return "the model that it received last" if name.endswith("/received") else "what the channel did not send yet"
    words = dict(run.algorithm.keeps)
    for stage in run.stages:
        words |= stage.keeps
    return words.get(name, words.get(name.partition("/")[0], f"a tensor that the method defines, named {name}"))


def _sent_tensor(name: str, tensor: Tensor, meaning: str, counted: bool) -> SentTensor:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return SentTensor(name, tuple(tensor.shape), dtype, tensor.nbytes, meaning, counted)


def _greeting_answer() -> SiteAnswer:
    """What a site's answer to the greeting looks like."""
    sizes = dict.fromkeys(("train", "valid", "test", "points"), 1000)
    about: dict[str, str | int] = {"name": "site-1", "fedloom": fedloom.__version__, "protocol": PROTOCOL}
    about |= {"torch": str(torch.__version__), "digest": "0" * 32, **sizes}
    return SiteAnswer(run="0" * 32, ticket="0" * 32, client=0, round=0, about=about)
