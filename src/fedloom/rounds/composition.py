"""What a run is made of: task, method, selection, weighting, aggregator, server optimiser, prediction stages.

The round loop reads these parts and changes none of them. What depends on the federation alone (who may take part, how
many samples they have) is computed once, not in every round: a round costs what its own clients cost, whether the
federation has a thousand clients or a million.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from fedloom.channel.channel import Channel
from fedloom.channel.downlink import DownChannel, Downlink
from fedloom.core.aggregator import Aggregator
from fedloom.core.algorithm import Algorithm, ServerStep, exchanges
from fedloom.core.attack import Attack
from fedloom.core.channel_step import ChannelStep
from fedloom.core.cohort import RunSetting
from fedloom.core.facts import Fact, holds
from fedloom.core.model.sub_models import SubModels
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.privacy import ClientPrivacy, Privacy
from fedloom.core.selector import Selector
from fedloom.core.server_context import ServerContext
from fedloom.core.task import FederationView, Task
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.hostile_clients import HostileClients
from fedloom.rounds.jobs import blocks
from fedloom.rounds.metrics import size_limits
from fedloom.rounds.participants import Participants, Weighting
from fedloom.rounds.round_costs import PlannedCosts
from fedloom.rounds.screen import Divergence, Screen
from fedloom.rounds.training_task import training_federation, training_task
from fedloom.secure.sum_step import SumStep
from fedloom.secure.sums import Sums, channel_of, sums_of
from fedloom.training.execution import Execution, cohorts
from fedloom.training.local_trainer import LocalTrainer

SCORED_TOGETHER = 64
"""Clients scored in one job."""

EXPLODED = Divergence()


@dataclass(frozen=True)
class Composition:
    """What a run is made of."""

    task: Task
    algorithm: Algorithm
    setting: RunSetting
    execution: Execution
    select: Selector
    weigh: Weighting
    aggregator: Aggregator
    optimize: ServerStep | None
    stages: tuple[PredictionStage, ...] = ()
    steps: tuple[ChannelStep, ...] = ()
    """The steps of the channel between clients and server."""
    weight_by: str = "samples"
    """The name of the weighting."""
    hostile: HostileClients | None = None
    """The clients that play another role, if there are any."""
    awaited: Attack | None = None
    """An attack whose clients are drawn from groups that the method forms before round 1. Until then nobody is hostile,
    since groups are formed by honest clients; ``runs/hostile_groups.py`` draws them."""
    downlink: Downlink | None = None
    """How models go down to clients."""
    sub_models: SubModels | None = None
    """The sub-models that clients train, if not the whole one."""
    new_clients: tuple[int, ...] = ()
    """Clients held out of training; they are only evaluated."""
    eval_every: int = 1
    eval_clients: int | None = None
    size_bounds: Sequence[int] | None = None
    clients_on_global: bool = False
    quorum: int | None = None
    """The fewest clients whose answers make a round; None for half of those that are asked. The aggregator may need
    more."""
    retries: int = 0
    """How often a round with fewer answers is tried again."""
    privacy: Privacy | None = None
    """What the run spends of its clients' privacy, if its aggregator adds noise."""
    client_privacy: Mapping[str, ClientPrivacy] = field(default_factory=dict)
    """What it spends of single clients' privacy, by the kind of noise that they add themselves."""
    screen: Screen = EXPLODED
    """Says which replies do not count."""
    executions: tuple[Execution, ...] = ()
    """How clients of each architecture train, where their models differ; ``execution`` is then the server's."""
    scored_together: int = SCORED_TOGETHER
    told: set[str] = field(default_factory=set, compare=False)
    """The warnings that were given: each is given once in a run."""
    present: Callable[[], Collection[int]] | None = None
    """Returns the clients that can be reached now; None where all of them always can. Clients that cannot be reached
    may still be selected; they do not answer."""
    sample_limits: Callable[[], Mapping[int, int]] | None = None
    """Returns the most training samples that some clients count with, by client; None where everybody counts with
    all of them. Limits act on weights only: records have what clients announced and did."""

    def participants(self, round_number: int) -> Participants:
        """The clients who may take part in a round, and the federation that is trained on."""
        state = self.task.federation.at(round_number)
        if id(state) not in self._participants:
            federation = training_federation(self.task, self.algorithm, state, self.new_clients)
            clients: Sequence[int] = range(federation.clients)
            if self.new_clients and federation.clients == state.clients:
                held_out = set(self.new_clients)
                clients = [client for client in clients if client not in held_out]
            if state.seen is not None:  # who has no sample of a stream's task does not take part in it
                sizes = federation.train.sizes.tolist()
                clients = [client for client in clients if sizes[client]]
            counted = self.counted_samples(federation.train.sizes)
            self._participants[id(state)] = Participants(federation, clients, self.weigh, counted)
        return self._participants[id(state)]

    @cached_property
    def _participants(self) -> dict[int, Participants]:
        return {}

    def counted_samples(self, samples: Tensor) -> Tensor:
        """The number of training samples that every client counts with.

        Args:
            samples: How many it has.
        """
        limits = {} if self.sample_limits is None else self.sample_limits()
        if not limits:
            return samples
        places = torch.tensor(sorted(limits))
        most = torch.tensor([limits[client] for client in sorted(limits)])
        return samples.index_copy(0, places, torch.minimum(samples[places], most))

    def answers_needed(self, asked: int, arrived: int = 0, gone: int = 0) -> int:
        """How many of the clients that were asked must give answers that count.

        Args:
            asked: How many clients were asked.
            arrived: How many of them sent something.
            gone: How many of these sent what is no number: hostile or broken clients of whom the aggregator knows.
        """
        least = self.aggregator.least_clients
        if gone and self.aggregator.withstands_rest(arrived, gone):
            least = min(least, arrived - gone)
        return min(asked, max((asked + 1) // 2 if self.quorum is None else self.quorum, least))

    def training_federation(self, round_number: int) -> FederationView:
        """The federation that is trained on in a round."""
        return self.participants(round_number).federation

    def size_limits(self, federation: FederationView) -> tuple[float, float]:
        """The limits between small, intermediate and big clients of a federation of this run."""
        if id(federation) not in self._size_limits:
            self._size_limits[id(federation)] = size_limits(federation.train.sizes, self.size_bounds)
        return self._size_limits[id(federation)]

    @cached_property
    def _size_limits(self) -> dict[int, tuple[float, float]]:
        return {}

    def clear_sizes(self) -> None:
        """Forget what was computed from clients' sizes, which change when a site joins a deployment late."""
        self._participants.clear()
        self._size_limits.clear()

    @cached_property
    def trainer(self) -> LocalTrainer:
        """Trains and evaluates models of the task itself: for scoring, and for the server's own passes."""
        return LocalTrainer(self.task, self.execution.name)

    @cached_property
    def trainers(self) -> tuple[LocalTrainer, ...]:
        """The same for the clients' models, by architecture; empty where all have the task's."""
        names = [execution.name for execution in self.executions]
        return tuple(LocalTrainer(self.task.of_architecture(number), name) for number, name in enumerate(names))

    def cohorts(self, ids: Sequence[int], sizes: Tensor) -> list[list[int]]:
        """The clients of a wave in cohorts that train together, each of one architecture.

        Args:
            ids: The clients.
            sizes: The number of training samples of every client.
        """
        if self.task.architectures is None:
            return cohorts(list(ids), sizes, self.execution)
        architectures = training_task(self.task, self.algorithm, self.new_clients).architectures
        parts = (architectures or self.task.architectures).split(ids).items()
        return [one for number, some in parts for one in cohorts(some, sizes, self.executions[number])]

    def blocks(self, ids: Sequence[int]) -> list[tuple[list[int], list[int]]]:
        """Clients that are evaluated together, of one architecture each, with their places among ``ids``.

        Args:
            ids: The clients.
        """
        architectures = self.task.architectures
        parts = [list(ids)] if architectures is None else list(architectures.split(ids).values())
        places = {client: place for place, client in enumerate(ids)}
        return [
            (some, [places[client] for client in some]) for part in parts for some in blocks(part, self.scored_together)
        ]

    def runtime(self) -> ClientRuntime:
        """What a process needs to do this run's jobs."""
        task = training_task(self.task, self.algorithm, self.new_clients)
        training, each = self.trainer, self.trainers
        if task is not self.task:
            training = LocalTrainer(task, self.execution.name)
            each = tuple(LocalTrainer(task.of_architecture(n), one.name) for n, one in enumerate(self.executions))
        return ClientRuntime(
            self.algorithm,
            training,
            self.trainer,
            self.setting,
            self.stages,
            self.clients_on_global,
            self.steps,
            self.weight_by,
            self.hostile,
            self.downlink,
            self.sub_models,
            tuple(zip(each, self.trainers, strict=True)),
        )

    def context(self, round_number: int) -> ServerContext:
        """What the server half of the method may use in a round."""
        setting, clients = self.setting, self.participants(round_number).clients
        trainer = self.trainer.at(round_number)
        return ServerContext(
            trainer,
            setting.work,
            setting.seed,
            round_number,
            setting.rounds,
            clients,
            self.weigh,
            trainers=tuple(one.at(round_number) for one in self.trainers),
            counted=self.counted_samples(trainer.task.at(round_number).federation.train.sizes),
            receives=self.algorithm.receives,
            sends=self.algorithm.sends,
        )

    @property
    def channel(self) -> Channel:
        """What happens to replies between the clients and the server."""
        return channel_of(self.algorithm, self.steps)

    @property
    def sums(self) -> Sums | None:
        """How replies are added, if only sums of them leave the clients."""
        has_sums = any(isinstance(step, SumStep) for step in self.steps)
        return sums_of(self.algorithm, self.steps, self.weight_by) if has_sums else None

    @cached_property
    def hides_models(self) -> bool:
        """Whether clients hand models to each other that the server cannot read."""
        return not holds(Fact.READABLE, self.algorithm)

    @cached_property
    def exchanges(self) -> bool:
        """Whether the clients and the server of the method exchange anything."""
        return exchanges(self.algorithm)

    @property
    def codes_models(self) -> bool:
        """Whether models go down in another form than the method's server has them."""
        return self.downlink is not None or self.sub_models is not None

    @property
    def down_channel(self) -> DownChannel:
        """What happens to messages between the server and the clients."""
        return DownChannel(self.algorithm, self.downlink, self.sub_models)

    @property
    def draws_are_secret(self) -> bool:
        """Whether nobody may learn who takes part in a round."""
        return self.privacy is not None and self.privacy.secret_draws

    def planned_costs(self, round_number: int) -> PlannedCosts:
        """What a round of the average size has."""
        rate, work = 1.0 if self.privacy is None else self.privacy.rate, self.setting.work
        samples = self.participants(round_number).sizes.tolist()
        return PlannedCosts(rate * len(samples), round(rate * sum(work.steps_for(count) for count in samples)))

    def reachable(self, clients: Sequence[int]) -> Sequence[int]:
        """Those of some clients who can be reached now."""
        if self.present is None:
            return clients
        present = set(self.present())
        return [client for client in clients if client in present]
