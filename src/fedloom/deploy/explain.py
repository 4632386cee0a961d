"""What leaves a site and what reaches it, in words and bytes, before anything is sent (``fedloom deploy explain``).

A dry run finds it out: two rounds with the run's own method and selection, with one sample of each class per client and
one epoch. Names, types, shapes and counted bytes do not depend on the rest. (Two things can: which clients form a
chain, and how many entries of a sparse gradient are sent.) The simulator counts the bytes of the method's messages; the
few numbers that go with them, and the evaluation of models, are listed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import fedloom
from fedloom.core.algorithm import Algorithm
from fedloom.core.declarations import default_declaration
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.core.threads import single_thread
from fedloom.deploy.protocol.reply_forms import first_two, with_few_samples
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack
from fedloom.deploy.settings import ServerSettings
from fedloom.engines.inline import Inline
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Job, Tensors
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.rounds.scoring import is_scored, score_models
from fedloom.runs.config_schema import RunConfig
from fedloom.runs.history import History
from fedloom.runs.prepare import Prepared, prepare
from fedloom.runs.resolve_config import method_from_config, task_from_config
from fedloom.tasks.graphs.deployment import hide_anchors

SELECTION, WORK, SCORING = "selection", "work", "scoring"
"""The purposes of messages to sites."""

RESULT = {
    "steps": "number of its training steps",
    "samples": "number of its training samples",
    "bytes": "the counted bytes of its reply",
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
TITLES = {SELECTION: "The selection asks", WORK: "Sites work"}


@dataclass(frozen=True)
class SentTensor:
    """A tensor of one site's message or answer; ``counted`` says whether the simulator counts its bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    meaning: str
    counted: bool = True


@dataclass(frozen=True)
class Exchange:
    """A message to some sites, and what each of them answers."""

    round: int
    what: str
    clients: tuple[int, ...]
    down: tuple[SentTensor, ...]
    up: tuple[SentTensor, ...]

    @property
    def reaches(self) -> int:
        """Bytes that reach each of the sites."""
        return sum(tensor.bytes for tensor in self.down)

    @property
    def leaves(self) -> int:
        """Bytes that leave each of the sites."""
        return sum(tensor.bytes for tensor in self.up)


@dataclass(frozen=True)
class Explanation:
    """Everything that is sent in a run.

    ``records`` are the simulator's: of what precedes the first round, of the first round and of the second.
    """

    method: str
    task: str
    rounds: int
    clients: int
    exchanges: tuple[Exchange, ...]
    records: tuple[Mapping[str, Any], ...]
    kept: Mapping[str, str]
    """What stays at a site, in words."""
    scorings: int
    final: tuple[SentTensor, ...]
    """What a site gets at the end, to predict with."""
    model: int
    """Bytes of a whole model."""
    greeting: int
    header: int
    cross_site: bool = False
    evaluator: str | None = None

    def of(self, number: int, *what: str) -> list[Exchange]:
        """The exchanges of a round."""
        return [e for e in self.exchanges if e.round == number and e.what in what]

    def reply_bytes(self, number: int) -> int:
        """Bytes of all replies of a round, as they are sent."""
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
        """The round that represents all later ones."""
        return 2 if self.of(2, WORK) else 1

    @property
    def whole_run(self) -> tuple[int, int]:
        """Bytes that reach and that leave a site that takes part in every round; headers not counted."""
        first, again, early = (self.per_site(n, SELECTION, WORK) for n in (1, self.later, 0))
        scoring = self.per_site(1, SCORING)
        down, up = (early[i] + first[i] + (self.rounds - 1) * again[i] + self.scorings * scoring[i] for i in (0, 1))
        down += sum(tensor.bytes for tensor in self.final)
        if self.cross_site:
            down, up = down + sum(p.bytes for p in self.final) + self.clients * self.model, up + self.model
        return down, up + self.greeting

    def lines(self) -> list[str]:
        """The explanation as text, a line each."""
        return explanation_lines(self)


class _RecordingEngine(Inline):
    """The inline engine, which records what goes down to clients and comes up from them."""

    def __init__(self, runtime: ClientRuntime, communicates: bool) -> None:
        super().__init__(runtime)
        self.communicates, self.round, self.seen, self.kept = communicates, 0, list[Exchange](), set[str]()

    def begin(self, round_number: int) -> None:
        self.round = round_number

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, Tensor]) -> list[Tensors]:
        results = super().run(jobs, message, kept)
        kind = jobs[0].kind
        if kind != "global":
            what = {"update": WORK, "ask": SELECTION, "score": SCORING}[kind]
            down = _down(self.runtime.algorithm, message, self.communicates and kind != "score")
            up = tuple(self._up(kind, name, t, message) for name, t in results[0].items() if not _is_kept(name))
            clients = tuple(client for job in jobs for client in job.ids)
            self.seen.append(Exchange(self.round, what, clients, down, up))
        self.kept |= {name.removeprefix("kept/") for result in results for name in result if _is_kept(name)}
        return results

    def _up(self, kind: str, name: str, tensor: Tensor, message: Message) -> SentTensor:
        """What a client's tensor is: a measurement of the runtime, or a reply as its method declares it."""
        if name.startswith("reply/"):
            plain, at, extra = name.removeprefix("reply/").partition("@")
            about = self.runtime.algorithm.declaration(plain, message).about
            if at:
                about = f"sent beside {plain} by the channel"
            elif self.runtime.steps and plain in self.runtime.channel.update_names({plain: tensor}, message):
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
        if algorithm.on_graphs:
            hide_anchors(task)  # sites find them by hashes
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
        kept={name: _kept_words(run, name) for name in sorted(engine.kept) if not name.endswith("/has")},
        scorings=sum(is_scored(run, number) for number in range(1, rounds + 1)) + (run.eval_every > 0),
        final=final,
        model=run.task.initial_row().nbytes,
        greeting=len(pack(_greeting_answer(), {})),
        header=len(pack(SiteRequest(run="0" * 32, ticket="0" * 32, kind="update", round=rounds, base="0" * 32), {})),
        cross_site=settings is not None and settings.cross_site,
        evaluator=None if settings is None else settings.evaluator,
    )


def explanation_text(config: RunConfig, settings: ServerSettings | None = None) -> str:
    """The explanation of a run's config as a text."""
    return "\n".join(explain(config, settings).lines()) + "\n"


def _dry_run(run: Composition, rounds: int) -> tuple[_RecordingEngine, list[Mapping[str, Any]], tuple[SentTensor, ...]]:
    """Play the first rounds with almost no work; evaluate after each, if the run evaluates at all."""
    often = min(run.eval_every, 1)
    dry = replace(run, setting=replace(run.setting, rounds=rounds), eval_every=often)
    engine, state = (
        _RecordingEngine(with_few_samples(dry.runtime(), one_of_each_class), run.algorithm.communicates),
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
    return tuple(
        _sent_tensor(name, tensor, algorithm.receives.get(name, default_declaration(name, False)).about, counted)
        for name, tensor in parts
    )


def _kept_words(run: Composition, name: str) -> str:
    """What stays at a site under a name, as the method, a stage or the channel says."""
    if name.startswith("channel/"):
        return "what the channel did not send yet"
    words = dict(run.algorithm.keeps)
    for stage in run.stages:
        words |= stage.keeps
    return words.get(name, words.get(name.partition("/")[0], f"a tensor that the method defines, named {name}"))


def _sent_tensor(name: str, tensor: Tensor, meaning: str, counted: bool) -> SentTensor:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return SentTensor(name, tuple(tensor.shape), dtype, tensor.nbytes, meaning, counted)


def _is_kept(name: str) -> bool:
    return name.startswith("kept/")


def _greeting_answer() -> SiteAnswer:
    """What a site's answer to the greeting looks like."""
    sizes: dict[str, str | int] = dict.fromkeys(("train", "valid", "test", "points"), 1000)
    about = {"name": "site-1", "fedloom": fedloom.__version__, "torch": str(torch.__version__), "digest": "0" * 32}
    return SiteAnswer(run="0" * 32, ticket="0" * 32, client=0, round=0, about={**about, **sizes})


# -- the explanation as text


def explanation_lines(run: Explanation) -> list[str]:
    """The whole explanation."""
    rounds = "1 round" if run.rounds == 1 else f"{run.rounds:,} rounds"
    lines = [f"What leaves a site and what reaches it: {run.method} on {run.task}, {run.clients} sites, {rounds}."]
    lines += _greeting(run)
    if run.of(0, WORK):
        lines += ["", "Once, before the first round", *_exchanges(run, 0)]
    if _outline(run, 1) == _outline(run, run.later):
        lines += ["", "Every round", *_exchanges(run, 1)]
    else:  # the dry run does in its first round also what a method does once, between two phases
        lines += ["", "The first round, and what is done only once", *_exchanges(run, 1)]
        lines += ["", "Every later round", *_exchanges(run, 2)]
    return [*lines, *_scoring(run), *_end(run), *_whole_run(run), *_stays(run)]


def _greeting(run: Explanation) -> list[str]:
    return [
        "",
        "When a site connects",
        "  leaves the site: its name and number, how many samples it has for training, validation and testing",
        "    and in all, the versions of fedloom and torch, and a checksum of the run's files",
        f"    (about {run.greeting:,} bytes). Every message and answer has a header of about {run.header:,} bytes.",
    ]


def _outline(run: Explanation, number: int) -> list[tuple[str, tuple[SentTensor, ...], tuple[SentTensor, ...], int]]:
    return [(e.what, e.down, e.up, count) for e, count in _merge_alike(run.of(number, SELECTION, WORK))]


def _merge_alike(some: Sequence[Exchange]) -> list[tuple[Exchange, int]]:
    """Exchanges that look alike as one, with the number of sites in all of them together."""
    found: dict[tuple[str, tuple[SentTensor, ...], tuple[SentTensor, ...]], list[Exchange]] = {}
    for one in some:
        found.setdefault((one.what, one.down, one.up), []).append(one)
    return [(alike[0], sum(len(one.clients) for one in alike)) for alike in found.values()]


def _exchanges(run: Explanation, number: int) -> list[str]:
    lines: list[str] = []
    for one, count in _merge_alike(run.of(number, SELECTION, WORK)):
        lines.append(f"  {TITLES[one.what]}: {_sites(count, run.clients)}")
        lines += _table(one)
    reaches, leaves = run.per_site(number, SELECTION, WORK)
    lines.append(f"  In all, at most {reaches:,} bytes reach a site and {leaves:,} leave it in a round.")
    if number < len(run.records):
        cost = run.records[number]
        down, up, between = (cost[f"bytes_{way}"] for way in ("down", "up", "between"))
        lines.append(f"  The simulator counts {down:,} bytes down and {up:,} up for all sites.")
        if between:
            lines.append(f"  {between:,} more bytes go from site to site, through the server.")
        elif up < run.reply_bytes(number) and not run.of(number, SELECTION):
            lines.append("  Classes that a site does not have are sent as zeros and not counted.")
    return lines


def _sites(count: int, clients: int) -> str:
    if count == clients:
        return "all sites" if clients > 1 else "the site"
    return f"{count} of {clients} sites" if count < clients else f"{count} times, at {clients} sites"


def _table(one: Exchange) -> list[str]:
    rows = [("gets", tensor) for tensor in one.down] + [("sends", tensor) for tensor in one.up]
    lines = [
        f"    {way:<5} {tensor.name:<14} {_shape(tensor):>10} {tensor.dtype:<7} {tensor.bytes:>10,} B  {tensor.meaning}"
        for way, tensor in rows
    ]
    return lines or ["    nothing"]


def _shape(tensor: SentTensor) -> str:
    return " x ".join(f"{size:,}" for size in tensor.shape) or "1"


def _scoring(run: Explanation) -> list[str]:
    some = run.of(1, SCORING)
    if not some:
        return ["", "Models are never evaluated."]
    one, count = _merge_alike(some)[0]
    times = "once" if run.scorings == 1 else f"{run.scorings:,} times"
    lines = ["", f"Evaluation, {times} in the run: {_sites(count, run.clients)}", *_table(one)]
    if run.evaluator is not None:
        lines.append(f"  Then {run.evaluator} gets the shared model and sends its loss and score on its own data.")
    return [*lines, "  The simulator does not count these bytes."]


def _end(run: Explanation) -> list[str]:
    size = sum(tensor.bytes for tensor in run.final)
    names = ", ".join(tensor.name for tensor in run.final) or "nothing"
    lines = ["", "At the end", f"  reaches a site: {names} ({size:,} bytes), to make the model that it predicts with"]
    if not run.cross_site:
        return [*lines, "    (that model stays at the site)."]
    return [
        *lines,
        f"  leaves a site: that model, whole ({run.model:,} bytes), since cross_site is on; then the models of all",
        f"    {run.clients} sites reach it, and their scores on its test part leave it.",
    ]


def _whole_run(run: Explanation) -> list[str]:
    down, up = run.whole_run
    return [
        "",
        f"The whole run, for a site that is in every round: {down:,} bytes reach it and {up:,} leave it",
        "  (plus headers; later rounds are assumed to be like the last one above).",
    ]


def _stays(run: Explanation) -> list[str]:
    lines = ["", "What does not leave a site", "  its samples and their labels, and the files that they are in"]
    return lines + [f"  {name}: {words}" for name, words in run.kept.items()]
