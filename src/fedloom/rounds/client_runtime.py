"""What a process needs to do clients' jobs: the method, and trainers for the training task and the scored task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.rounds.channel import Channel
from fedloom.rounds.hostile_clients import HostileClients
from fedloom.rounds.jobs import Job, Tensors
from fedloom.training.local_trainer import LocalTrainer

PREDICTING = -1
"""The turn of clients that predict: fine-tuning then has other batches than any turn of the training."""


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
    hostile: HostileClients | None = None
    """The clients that play another role, if there are any."""

    @property
    def channel(self) -> Channel:
        """What happens to replies between the clients and the server."""
        return Channel(self.algorithm, self.steps)

    def do(self, job: Job, message: Message, kept: Mapping[str, Tensor]) -> Tensors:
        """Do one job."""
        if job.kind == "global":
            positions = self.scoring.task.federation.global_test[job.ids[0] : job.ids[1]]
            sums = [values.sum() for values in self.scoring.sample_scores(message["row"], positions)]
            return dict(zip(("loss", "score", "counts"), sums, strict=True))
        places = torch.tensor(job.places)
        own = {name: rows[places] for name, rows in kept.items()}
        trainer, turn = (self.training, job.turn) if job.kind == "update" else (self.scoring, PREDICTING)
        cohort = Cohort(job.ids, trainer, self.setting, job.round, own, turn)
        self.algorithm.prepare_cohort(cohort)
        message = message.for_clients(places)
        message = Message({name: tensor.clone() for name, tensor in message.shared.items()}, message.each)
        if job.kind == "update":
            return self._update(cohort, message, job.measure)
        return self._ask(cohort, message) if job.kind == "ask" else self._score(cohort, message)

    def _update(self, cohort: Cohort, message: Message, measure: bool) -> Tensors:
        reply = self.algorithm.client_update(cohort, message)
        if self.hostile is not None:
            reply = self.hostile.attack(self.algorithm, reply, message, cohort)
        for stage in self.stages:
            stage.after_update(cohort)
        reply = self.channel.encode(reply, message, cohort)
        result = {f"reply/{name}": tensor for name, tensor in reply.tensors.items()}
        for name in sorted(cohort.changed):
            result |= {f"kept/{name}": cohort.state[name], f"kept/{name}/has": cohort.state[f"{name}/has"]}
        result |= {"steps": cohort.steps, "samples": cohort.samples, "bytes": reply.cost(len(cohort))}
        for model, rows in (("received", cohort.before), ("trained", cohort.after)):
            if measure and rows is not None:
                scores = cohort.evaluate(rows)
                result |= {f"{model}/loss": scores.mean_loss, f"{model}/score": scores.mean_score}
        return result

    def _ask(self, cohort: Cohort, message: Message) -> Tensors:
        """Loss and score of clients' current models on their validation part, or without one on their training part."""
        rows = cohort.spread(self.algorithm.weights_for(message, cohort))
        federation = cohort.task.federation
        lists = [federation.valid[client] if len(federation.valid[client]) else federation.train[client] for client in cohort.ids]  # fmt: skip # noqa: E501
        scores = cohort.trainer.scores(rows, lists)
        return {"loss": scores.mean_loss, "score": scores.mean_score, "samples": cohort.samples}

    def prediction_rows(self, cohort: Cohort, message: Message) -> Tensor:
        """What clients predict with after the run's stages: one row for all, or a row per client of the cohort."""
        rows = self.algorithm.weights_for(message, cohort)
        for stage in self.stages:
            rows = stage.weights(cohort.spread(rows), message, cohort)
        return rows

    def _score(self, cohort: Cohort, message: Message) -> Tensors:
        rows = self.prediction_rows(cohort, message)
        result = self._scores(cohort, rows)
        if self.clients_on_global:
            result |= {"global": self._global_scores(cohort, rows)}
        withheld = cohort.task.federation.withheld
        if withheld is not None:
            label, victims = withheld
            scores = cohort.evaluate(cohort.spread(rows), label=label)
            mine = torch.tensor([client in victims for client in cohort.ids])
            result |= {"recall": torch.where(mine, scores.mean_score, torch.nan)}
        return result

    def _global_scores(self, cohort: Cohort, rows: Tensor) -> Tensor:
        """Each client's mean score on the global test set."""
        positions = cohort.task.federation.global_test
        different = rows.unsqueeze(0) if rows.dim() == 1 else rows
        return self.scoring.scores(different, [positions] * len(different)).mean_score.expand(len(cohort))

    def _scores(self, cohort: Cohort, rows: Tensor) -> Tensors:
        if rows.dim() == 2:
            scores = cohort.evaluate(rows)
            return {"loss": scores.loss, "score": scores.score, "counts": scores.counts}
        test = cohort.task.federation.test
        lists = [test[client] for client in cohort.ids]
        owner = torch.repeat_interleave(torch.arange(len(lists)), torch.tensor([len(part) for part in lists]))
        columns = self.scoring.sample_scores(rows, torch.cat(lists))
        sums = [torch.zeros(len(lists), dtype=torch.float64).index_add_(0, owner, column) for column in columns]
        return dict(zip(("loss", "score", "counts"), sums, strict=True))
