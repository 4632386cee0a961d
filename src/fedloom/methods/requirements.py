"""What several methods require of a task or of the local work, checked before a run starts."""

from __future__ import annotations

from torch import nn

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.model.stages import stage_names
from fedloom.core.network import feature_width
from fedloom.core.task import Task

WITH_STAGES = ("resnet8", "resnet14", "resnet20", "resnet-small", "mini-mobilenet", "mini-efficientnet")
"""The built-in models that name their stages."""


def require_body_and_head(algorithm: Algorithm, task: Task) -> None:
    """Refuse a model that is not a body and a head."""
    if set(task.layout.parts) != {"body", "head"}:
        raise FedloomError(
            f"{type(algorithm).__name__.lower()} needs a model with a body and a head, but {type(task.model).__name__} "
            f"has {', '.join(task.layout.parts)}: name the head, and nothing but the head, in model.parts."
        )


def require_features(name: str, task: Task) -> None:
    """Refuse a model that does not show the input of its head."""
    model = type(task.model).__name__
    if not (hasattr(task.model, "features") or isinstance(task.model, nn.Sequential)):
        raise FedloomError(
            f"{name} uses features, the input of the head, but {model} does not return them: give it a features method."
        )
    if set(task.layout.parts) == {"head"}:
        raise FedloomError(f"{name} uses features, the input of the head, but {model} is all head: use a deeper model.")


def require_equal_features(name: str, task: Task) -> None:
    """Refuse clients' models whose heads see different numbers of features."""
    widths = {feature_width(own) for own in task.by_architecture}
    if len(widths) > 1 and task.architectures is not None:
        each = zip(task.architectures.names, map(feature_width, task.by_architecture), strict=True)
        shown = ", ".join(f"{model} {width}" for model, width in each)
        raise FedloomError(
            f"{name} compares features of all clients, but their models have different numbers of them ({shown}): "
            "give them heads with equally many inputs."
        )


def require_stages(name: str, task: Task) -> None:
    """Refuse a model that does not name the stages whose outputs are looked at."""
    if not getattr(task.model, "stages", ()):
        first, *others = WITH_STAGES
        raise FedloomError(
            f"{name} looks at the stages of a model, and {type(task.model).__name__} names none: use --model {first} "
            f"(or {', '.join(others)}; all are for images), or give your own the names of the submodules whose outputs "
            "are its stages, for instance stages = ('3', '4', '5')."
        )
    try:
        stage_names(task.model)
    except FedloomError as error:
        raise FedloomError(f"{name} looks at the stages of a model: {error}") from None


def require_communal(name: str, task: Task) -> None:
    """Refuse a task without samples that all clients and the server have."""
    if not len(task.federation.communal):
        raise FedloomError(
            f"{name} needs samples that the server and all clients have, but task {task.name} has none: set "
            "task.communal, for instance to 0.2."
        )


def require_labels_of_communal(name: str, task: Task) -> None:
    """Refuse a communal set without labels."""
    if not task.federation.communal_labelled:
        raise FedloomError(
            f"{name} needs the classes of the communal samples, but those of task {task.name} have no labels: leave "
            "labelled = false out of task.communal, or give samples that have targets."
        )


def require_classes(name: str, task: Task) -> None:
    """Refuse a task whose targets are not one class per sample."""
    if not task.classifies:
        raise FedloomError(f"{name} needs a class per sample, but the targets of task {task.name} are {task.kind}.")


def require_plain_sgd(step: str, work: LocalWork, other: str = "") -> None:
    """Refuse local work other than SGD without momentum; ``step`` is what needs it, ``other`` another way out."""
    if not work.is_plain_sgd:
        raise FedloomError(f"{step} needs plain gradient steps: use local.optimizer = sgd without momentum{other}.")
