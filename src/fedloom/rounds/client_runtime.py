"""What a process needs to do clients' jobs: the method, and trainers for the training task and the scored task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from fedloom.channel.channel import Channel
from fedloom.channel.downlink import DownChannel, Downlink
from fedloom.core.algorithm import Algorithm, handover_of
from fedloom.core.channel_step import ChannelStep
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.facts import Fact, holds
from fedloom.core.kept_rows import KeptRows
from fedloom.core.message import Message, Reply
from fedloom.core.metric import Metric, Scores
from fedloom.core.model.architectures import own_state, stored_name
from fedloom.core.model.sub_models import SubModelDraw, SubModels
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.relays import RELAY, fill_envelopes, read_envelopes
from fedloom.rounds.confusion_counts import ConfusionCounts
from fedloom.rounds.hostile_clients import HostileClients
from fedloom.rounds.jobs import CohortAnswer, Job, Tensors
from fedloom.rounds.method_check import check_reply
from fedloom.rounds.metrics import metric_values
from fedloom.rounds.silent_clients import restore_kept, withhold_replies
from fedloom.secure.sum_step import SumStep
from fedloom.secure.sums import channel_of, sums_of
from fedloom.training.local_trainer import LocalTrainer
from fedloom.training.metric_sums import MetricSums

PREDICTING = -1
"""The turn of clients that predict: fine-tuning then has other batches than any turn of the training."""
SENT = ("update", "ask")
"""Jobs whose message is counted as sent; for others, clients are scored as they are."""
VALIDATION = "valid/"
"""The prefix of what a ``score`` job measures on validation parts."""


@dataclass(frozen=True)
class ClientRuntime:
    """Does jobs for cohorts of clients, wherever an engine runs it."""

    algorithm: Algorithm
    training: LocalTrainer
    scoring: LocalTrainer
    setting: RunSetting
    stages: tuple[PredictionStage, ...] = ()
    clients_on_global: bool = False
    """Whether clients' models are scored on the global test set too."""
    steps: tuple[ChannelStep, ...] = ()
    """The steps of the run's channel."""
    weight_by: str = "samples"
    """How much clients count in a mean."""
    hostile: HostileClients | None = None
    """The clients that play another role, if there are any."""
    downlink: Downlink | None = None
    """How models come down to the clients."""
    sub_models: SubModels | None = None
    """The sub-models that clients train, if not the whole one."""
    trainers: tuple[tuple[LocalTrainer, LocalTrainer], ...] = ()
    """What trains and what scores the clients' models, by architecture; empty where all have the same."""

    @property
    def channel(self) -> Channel:
        """What happens to replies between the clients and the server."""
        return channel_of(self.algorithm, self.steps)

    @property
    def down_channel(self) -> DownChannel:
        """What happens to messages between the server and the clients."""
        return DownChannel(self.algorithm, self.downlink, self.sub_models)

    @property
    def sum_step(self) -> SumStep | None:
        """The step that lets only sums leave, if the channel has one: the last."""
        return self.steps[-1] if self.steps and isinstance(self.steps[-1], SumStep) else None

    @cached_property
    def hides_models(self) -> bool:
        """Whether clients hand models to each other that the server cannot read."""
        return not holds(Fact.READABLE, self.algorithm)

    def do(self, job: Job, message: Message, kept: Mapping[str, KeptRows]) -> Tensors:
        """Do one job."""
        if job.kind == "global":
            return self._score_shared_row(self.scoring.at(job.round), message["row"], slice(*job.ids))
        return self.of_client(job.ids[0], job.kind == "update")._do(job, message, kept)

    def of_client(self, client: int, trains: bool = False) -> ClientRuntime:
        """The runtime of the clients that have the same architecture as a client.

        Args:
            client: The client: of the federation that is trained on if it ``trains``, else of the task's.
            trains: Whether it trains.
        """
        if not self.trainers:
            return self
        task = (self.training if trains else self.scoring).task.of_client(client)
        training, scoring = self.trainers[task.architecture]
        return replace(self, training=training, scoring=scoring, trainers=())

    def cohort(
        self,
        ids: list[int],
        round_number: int,
        kept: Mapping[str, KeptRows],
        turn: int = PREDICTING,
        trains: bool = False,
    ) -> Cohort:
        """The clients of a job, with what they kept.

        Args:
            ids: The clients, who have this runtime's models.
            kept: What they kept from earlier rounds.
            turn: How often they already worked in this round.
            trains: Whether they train, or predict with their models.
        """
        trainer = self.training if trains else self.scoring
        count = 1 if trainer.task.architectures is None else len(trainer.task.architectures)
        own = own_state(kept, trainer.task.architecture, count)
        cohort = Cohort(ids, trainer, self.setting, round_number, own, turn)
        self.algorithm.prepare_cohort(cohort)
        return cohort

    def _do(self, job: Job, message: Message, kept: Mapping[str, KeptRows]) -> Tensors:
        """Do a job of clients who have this runtime's models."""
        places = torch.tensor(job.places)
        own = {name: rows.only(places) for name, rows in kept.items()}
        trains = job.kind == "update"
        cohort = self.cohort(job.ids, job.round, own, job.turn if trains else PREDICTING, trains)
        message = message.for_clients(places)
        if RELAY in message.each and self.hides_models:
            message = Message(message.shared, {"row": read_envelopes(message.each[RELAY])})
        if job.kind in SENT:
            draw = SubModelDraw(self.setting.seed, job.round, job.turn, job.ids) if job.kind == "update" else None
            message = self.down_channel.decode(message, draw)
        if job.kind == "update":
            message = self.down_channel.restore(message, cohort)
        message = Message({name: tensor.clone() for name, tensor in message.shared.items()}, message.each)
        if job.kind == "update":
            return self._update(cohort, message, job).pack()
        if job.kind == "confusion":
            return {"confusion": self._confusion(cohort, message)}
        answer = self._ask if job.kind == "ask" else self._score
        return answer(cohort, message, job.measure)

    def _update(self, cohort: Cohort, message: Message, job: Job) -> CohortAnswer:
        before = dict(cohort.kept)
        reply = self.algorithm.client_update(cohort, message)
        check_reply(self.algorithm, reply, len(cohort))
        if self.hostile is not None:
            reply = self.hostile.poison_reply(self.algorithm, reply, message, cohort)
        for stage in self.stages:
            stage.after_update(cohort)
        trained = frozenset(cohort.changed)
        silent = self.channel.silent(reply, message, cohort)
        remembered = frozenset(cohort.changed) - trained
        if self.hides_models:
            reply = self._hand_on(self.channel.encode(reply, message, cohort), message, job)
        elif job.session is None:
            reply = self.channel.encode(reply, message, cohort)
        else:
            reply = sums_of(self.algorithm, self.steps, self.weight_by).code(reply, message, cohort, job.session)
        if silent is not None:
            restore_kept(cohort, before, silent, but=remembered)
        kept = {stored_name(name, cohort.architecture): cohort.kept[name] for name in sorted(cohort.changed)}
        costs = {"steps": cohort.steps, "samples": cohort.samples, "bytes": reply.cost(len(cohort))}
        measured = self._measure(cohort) if job.measure else {}
        answer = CohortAnswer(dict(reply.tensors), kept, costs, measured)
        return answer if silent is None else withhold_replies(answer, silent)

    def _hand_on(self, reply: Reply, message: Message, job: Job) -> Reply:
        """What members of an encrypted chain send: their model, whole, since nobody else has what they started from."""
        rows = self.channel.decode(reply.tensors, message)["row"]
        return Reply({"row": rows} if self.is_end(job) else {RELAY: fill_envelopes(rows)})

    def is_end(self, job: Job) -> bool:
        """Whether the clients of a job answer the server with something that it reads, and not the next in a chain.

        Args:
            job: The job; its clients are alike in this.
        """
        place = handover_of(self.algorithm, job.ids[0], job.round, job.turn, self.setting.seed)
        return place is None or place.next is None

    def _measure(self, cohort: Cohort) -> Tensors:
        """Scores of the models that the clients received and trained, on their test parts."""
        found: Tensors = {}
        for model, rows in (("received", cohort.before), ("trained", cohort.after)):
            if rows is not None:
                scores, sums = self._evaluate(cohort, rows, "test")
                found |= {f"{model}/loss": scores.mean_loss, f"{model}/score": scores.mean_score}
                values = metric_values(self.metrics, sums, scores.counts)
                found |= {f"{model}/metric/{name}": column for name, column in values.items()}
        return found

    def _ask(self, cohort: Cohort, message: Message, on_training: bool) -> Tensors:
        """Loss and score of clients' current models on their validation part, or without one on their training part."""
        rows = cohort.spread(self.algorithm.weights_for(message, cohort))
        federation = cohort.task.federation
        lists = [
            federation.train[client] if on_training or not len(federation.valid[client]) else federation.valid[client]
            for client in cohort.ids
        ]
        scores = cohort.trainer.scores(rows, lists)
        return {"loss": scores.mean_loss, "score": scores.mean_score, "samples": cohort.samples}

    def prediction_rows(self, cohort: Cohort, message: Message) -> Tensor:
        """What clients predict with after the run's stages: one row for all, or a row per client of the cohort."""
        rows = self.algorithm.weights_for(message, cohort)
        for stage in self.stages:
            rows = stage.weights(cohort.spread(rows), message, cohort)
        return rows

    def _score(self, cohort: Cohort, message: Message, measure: bool) -> Tensors:
        rows = self.prediction_rows(cohort, message)
        result = self._scores(cohort, rows, "test")
        if measure:
            result |= {f"{VALIDATION}{name}": sums for name, sums in self._scores(cohort, rows, "valid").items()}
        if self.clients_on_global:
            result |= self._global_scores(cohort, rows)
        withheld = cohort.task.federation.withheld
        if withheld is not None:
            label, victims = withheld
            scores = cohort.evaluate(cohort.spread(rows), label=label)
            mine = torch.tensor([client in victims for client in cohort.ids])
            result |= {"recall": torch.where(mine, scores.mean_score, torch.nan)}
        return result

    def _confusion(self, cohort: Cohort, message: Message) -> Tensor:
        """Which classes were taken for which, over the test samples of all clients of the cohort."""
        federation = cohort.task.federation
        counts = MetricSums((ConfusionCounts(federation.classes),), len(cohort))
        lists = [federation.test[client] for client in cohort.ids]
        self._trainer_of(cohort).scores(cohort.spread(self.prediction_rows(cohort, message)), lists, counts)
        nothing = torch.zeros(federation.classes**2, dtype=torch.float64)
        return sum(counts.sums["confusion_counts"].values(), nothing)

    def _global_scores(self, cohort: Cohort, rows: Tensor) -> Tensors:
        """Each client's mean score, and each metric, on the global test set."""
        positions = cohort.task.federation.global_test
        different = rows.unsqueeze(0) if rows.dim() == 1 else rows
        metrics = MetricSums(self.metrics, len(different)) if self.metrics else None
        scores = self._trainer_of(cohort).scores(different, [positions] * len(different), metrics)
        result = {"global": scores.mean_score.expand(len(cohort))}
        values = metric_values(self.metrics, self.sums(metrics, different[0]), scores.counts)
        return result | {f"global/{name}": column.expand(len(cohort)) for name, column in values.items()}

    def _scores(self, cohort: Cohort, rows: Tensor, part: str) -> Tensors:
        """Sums over each client's test or validation part."""
        if rows.dim() == 2:
            scores, sums = self._evaluate(cohort, rows, part)
            return {"loss": scores.loss, "score": scores.score, "counts": scores.counts} | _named_sums(sums)
        positions = getattr(cohort.task.federation, part)
        lists = [positions[client] for client in cohort.ids]
        sizes = [len(part) for part in lists]
        owner = torch.repeat_interleave(torch.arange(len(lists)), torch.tensor(sizes))
        metrics = MetricSums(self.metrics, len(lists)) if self.metrics else None
        watch = None if metrics is None else metrics.in_order(sizes)
        columns = self._trainer_of(cohort).sample_scores(rows, torch.cat(lists), watch)
        totals = [torch.zeros(len(lists), dtype=torch.float64).index_add_(0, owner, column) for column in columns]
        return dict(zip(("loss", "score", "counts"), totals, strict=True)) | _named_sums(self.sums(metrics, rows))

    def _score_shared_row(self, scoring: LocalTrainer, row: Tensor, part: slice) -> Tensors:
        """Sums over a part of the global test set."""
        positions = scoring.task.federation.global_test[part]
        metrics = MetricSums(self.metrics, 1) if self.metrics else None
        watch = None if metrics is None else metrics.of_client(0)
        totals = [values.sum() for values in scoring.sample_scores(row, positions, watch)]
        return dict(zip(("loss", "score", "counts"), totals, strict=True)) | _named_sums(self.sums(metrics, row))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The task's metrics."""
        return self.scoring.task.metrics

    def _evaluate(self, cohort: Cohort, rows: Tensor, part: str) -> tuple[Scores, Tensors]:
        """Each client's row on its own test or validation part: loss and score, and the sums of each metric."""
        if not self.metrics:
            return cohort.evaluate(rows, part), {}
        positions = getattr(cohort.task.federation, part)
        metrics = MetricSums(self.metrics, len(cohort))
        scores = self._trainer_of(cohort).scores(rows, [positions[client] for client in cohort.ids], metrics)
        return scores, self.sums(metrics, rows[0])

    def _trainer_of(self, cohort: Cohort) -> LocalTrainer:
        """The trainer of a cohort."""
        training = self.training.at(cohort.round)
        return training if cohort.trainer is training else self.scoring.at(cohort.round)

    def sums(self, metrics: MetricSums | None, row: Tensor) -> Tensors:
        """The sums of each metric by its name, a row per client."""
        if metrics is None:
            return {}
        return metrics.rows(lambda watch: self.scoring.sample_scores(row, torch.zeros(1, dtype=torch.int64), watch))


def _named_sums(sums: Tensors) -> Tensors:
    return {f"metric/{name}": rows for name, rows in sums.items()}
