"""A method: five small functions, of which most methods override one or two.

The server half (``start``, ``broadcast``, ``aggregate``) and the client half (``client_update``, ``weights_for``)
meet only in messages, so the same class runs in simulation and on deployed machines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declaration, Declared, Kept, Model, Statistic, Update, default_declaration
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.renamed import RenamedAttribute, renamed
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import check_settings
from fedloom.core.task import FederationView, Task

ServerStep = Callable[[Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, dict[str, Tensor]]]
"""``(row, mean of the clients' rows, state) -> (new row, new state)``."""
State = Mapping[str, Tensor]
"""The server's state between rounds: named tensors, never changed in place."""
CLIENT_HALF = {"client_update", "train", "weights_for", "prepare_cohort"}
"""What a client's reply is made by."""
Round = Generator[Wave, Replies, State]
"""A round of the server: ``replies = yield Wave(...)`` as often as needed, then return the new state."""


@renamed(
    finished="is_finished",
    enter="prepare_cohort",
    travels="communicates",
    whole="shares_whole_model",
    personal="has_personal_models",
    trains="trains_locally",
)
@dataclass(frozen=True)
class Algorithm:
    """A method. Its hyper-parameters are its fields; it holds no state of its own."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    communicates: ClassVar[bool] = True
    """Whether clients and server exchange anything; isolated and centralised training do not, and cost no bytes."""
    shares_whole_model: ClassVar[bool] = True
    """Whether the shared ``row`` is a whole model, which is scored on the global test set; a shared body is not."""
    global_model_is_federated: ClassVar[bool] = True
    """Whether the shared ``row`` owes anything to clients; if not, comparisons show its score without a verdict."""
    trains_head: ClassVar[bool] = True
    """Whether the model's head is trained; if not, a prediction stage has to fit it."""
    has_personal_models: ClassVar[bool] = False
    """Whether clients predict with models of their own, to which a global model has nothing to add."""
    trains_locally: ClassVar[bool] = True
    """Whether clients train a model between a message and their reply (in FedSGD they do not)."""
    on_graphs: ClassVar[bool] = False
    """Whether the method needs clients that hold graphs."""
    on_images: ClassVar[bool] = False
    """Whether the method needs samples that are images."""
    depends_on_rounds: ClassVar[bool] = False
    """Whether a round depends on how many rounds the run has in all; a run of such a method cannot be prolonged."""
    aggregates: ClassVar[bool] = True
    """Whether the run's aggregator makes one row of clients' rows (``replies.mean``)."""
    averaged: ClassVar[tuple[str, ...]] = ()
    """All replies of a method whose server uses nothing of them but ``replies.mean``, once a round for each: privacy
    needs that. Empty if it uses anything else of any reply. A subclass with an ``aggregate``, ``play`` or
    ``prelude`` of its own has to say so itself."""
    sends_only_trained: ClassVar[bool] = False
    """Whether all that clients send and keep depends on their samples only through ``cohort.train`` with the task's
    loss: the privacy of samples needs that. A subclass with a ``client_update``, ``train``, ``weights_for`` or
    ``prepare_cohort`` of its own has to say so itself."""
    receives: ClassVar[Declared] = {"row": Model("the model's numbers")}
    """The tensors that clients get, by name."""
    sends: ClassVar[Declared] = {"row": Model("the model that the site trained")}
    """The tensors that clients reply with, by name."""
    keeps: ClassVar[Kept] = {}
    """What stays with clients between rounds, by name, in words; the part of a name before ``/`` is enough."""

    def __post_init__(self) -> None:
        check_settings(self)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if {"aggregate", "play", "prelude"} & set(vars(cls)) and "averaged" not in vars(cls):
            cls.averaged = ()
        if {"aggregate", "play", "prelude"} & set(vars(cls)) and "summed" not in vars(cls):
            setattr(cls, "summed", vars(Algorithm)["summed"])  # noqa: B010  # as if it were not inherited
        if CLIENT_HALF & set(vars(cls)) and "sends_only_trained" not in vars(cls):
            cls.sends_only_trained = False
        annotations = vars(cls).get("__annotations__", {})
        for name in vars(cls):
            inherited = vars(Algorithm).get(name)
            is_hyper_parameter = "ClassVar" not in str(annotations.get(name, "ClassVar"))
            if isinstance(inherited, RenamedAttribute) and not is_hyper_parameter:
                inherited.refuse(cls)

    @property
    def summed(self) -> tuple[str, ...]:
        """All replies of a method whose server uses nothing of them but sums over clients, weighted by the run's
        weights or shares: a sum is then enough. Empty if it needs each client's."""
        return self.averaged

    @property
    def sends_updates(self) -> bool:
        """Whether clients reply with weights or their changes, on which channels and attacks act."""
        return self.communicates and any(isinstance(one, Model | Update) for one in self.sends.values())

    @property
    def predicts_with_received(self) -> bool:
        """Whether clients predict with nothing but the shared model that they receive."""
        return type(self).weights_for is Algorithm.weights_for

    @property
    def sends_coded(self) -> bool:
        """Whether clients reply with statistics on which steps of a channel may act."""
        return any(isinstance(one, Statistic) and one.coded for one in self.sends.values())

    @property
    def mixes_models(self) -> bool:
        """Whether clients may have different architectures: nothing that is sent is a row of weights, unless the method
        asks the clients of each architecture apart (``Architectures.split``)."""
        sent = (*self.receives.values(), *self.sends.values())
        return not any(isinstance(one, Model | Update) for one in sent)

    @property
    def server(self) -> ServerStep | None:
        """A server optimiser that belongs to the method; most have none."""
        return None

    @property
    def compiles(self) -> bool:
        """Whether clients take one step per batch; ``compiled`` execution can do nothing else."""
        return True

    @property
    def averages_every_round(self) -> bool:
        """Whether every round ends with an average of clients' rows; a server optimiser needs that."""
        return True

    def adapt_task(self, task: Task) -> Task:
        """The task with what the method adds to its model (``core.adapted_model.add_modules``); most add nothing.

        Args:
            task: The task as the user built it.
        """
        return task

    def start(self, task: Task) -> State:
        """The server's state before the first round. A shared model is called ``row``.

        Args:
            task: The task of the run.
        """
        return {"row": task.initial_row()}

    def trains_on(self, federation: FederationView, new: Sequence[int]) -> FederationView:
        """The federation that is trained on (centralised training pools it, without the ``new`` clients).

        Args:
            federation: The federation of the task.
            new: The clients that are held out of training.
        """
        return federation

    def check(self, task: Task, work: LocalWork) -> None:
        """Raise a ``FedloomError`` for a task or local work that the method cannot use, before any work is done.

        Args:
            task: The task of the run.
            work: The local work of the run.
        """

    def prelude(self, server: State, context: ServerContext) -> Round | None:
        """Waves that run once, before the first round; most methods have none.

        Args:
            server: The server's state before the first round.
            context: What the server may use.
        """
        return None

    def groups(self, server: State) -> list[list[int]] | None:
        """The groups of clients that a round selects from; None where it selects clients.

        ``play`` then gets numbers of groups instead of clients.

        Args:
            server: The server's state.
        """
        return None

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        """One round; most methods are one wave.

        Args:
            server: The server's state before the round.
            ids: The selected clients, or groups of clients.
            context: What the server may use in this round.
        """
        replies = yield Wave(ids, self.broadcast(server, ids))
        return self.aggregate(server, replies)

    def is_finished(self, server: State) -> bool:
        """Whether the method has nothing more to do; the run then ends before its last round.

        Args:
            server: The server's state.
        """
        return False

    def prepare_cohort(self, cohort: Cohort) -> None:
        """Put what clients kept into their data, before they do anything (edges that a client added to its graph).

        Args:
            cohort: The clients.
        """

    def broadcast(self, server: State, ids: list[int]) -> Message:
        """The message to the clients of a round.

        Args:
            server: The server's state.
            ids: The clients that get it.
        """
        return Message({"row": server["row"]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """Work on the clients' data with the message and with what they kept; return what goes to the server.

        Args:
            cohort: The clients.
            message: What they got from the server.
        """
        raise TypeError(f"{type(self).__name__} has no client_update")

    def declaration(self, name: str, message: Message) -> Declaration:
        """What a tensor of a reply is.

        Args:
            name: The name of the tensor.
            message: The message that the reply answers.
        """
        return self.sends[name] if name in self.sends else default_declaration(name, name in message)

    def width_of(self, name: str, task: Task) -> int | None:
        """How many numbers a client's row of a reply has, if it is neither a whole model nor one part of it.

        Args:
            name: The name of the reply's tensor.
            task: The task of the run, with what the method adds to its model.
        """
        return None

    def base(self, name: str, message: Message, reply: Mapping[str, Tensor]) -> Tensor | None:
        """The weights that clients started from when they made a reply's ``Model``: one row, or one per client.

        None if the message has no such tensor; the reply is then taken as a difference.

        Args:
            name: The name of the reply's tensor.
            message: The message that the reply answers, as the clients of the reply got it.
            reply: All tensors of the reply.
        """
        kind = self.declaration(name, message)
        return message.get((kind.of or name) if isinstance(kind, Model) else "")

    def refusals(self, message: Message, replies: Mapping[str, Tensor]) -> Mapping[int, str]:
        """Why some replies are of no use to the method, by their places; these clients are named and left out.

        Args:
            message: The message that the replies answer.
            replies: What the clients replied, decoded, in client order.
        """
        return {}

    def aggregate(self, server: State, replies: Replies) -> State:
        """The server's state after a round.

        Args:
            server: The server's state before the round.
            replies: What the clients replied, in client order.
        """
        return {**server, "row": replies.mean("row")}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        """What clients predict with: one row for all, or a row per client of the cohort.

        Args:
            message: What the clients would get from the server now.
            cohort: The clients.
        """
        return message["row"]
