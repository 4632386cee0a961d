"""The settings of a task, one declaration each: the section ``[task]`` of a config and the arguments of ``fl.task``.

To add one, add a line here and use it in a builder. It then is a key of the config, an argument, an option if it has a
flag, and a row of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from fedloom.registry.setting import Setting, path_text

if TYPE_CHECKING:
    from torch import nn

    from fedloom.core.model.low_rank_adapters import LowRankAdapters
    from fedloom.data.changes.class_stream import ClassStream
    from fedloom.data.changes.communal_set import Communal
    from fedloom.data.changes.concept_drift import Drift
    from fedloom.data.changes.server_set import ServerSet
    from fedloom.data.changes.withheld_class import Withhold
    from fedloom.data.media.media_settings import Images, Sounds
    from fedloom.data.partition.base import Partitioner
    from fedloom.data.sequences.sequence_settings import Sequences
    from fedloom.data.tables.text_column import Text
    from fedloom.losses.make_objective import LossSpec
    from fedloom.metrics.make_metrics import MetricSpecs
    from fedloom.models.user_model import Maker
    from fedloom.tasks.architectures import ModelTable

    PartitionSpec = Partitioner | str | Mapping[str, Any] | None
    ModelSpec = str | nn.Module | Maker | None
    Columns = Sequence[str]
    CommunalSpec = float | Communal | Mapping[str, Any] | None
    ServerSetSpec = float | ServerSet | Mapping[str, Any] | None
    StreamSpec = ClassStream | Mapping[str, Any] | None
    WithholdSpec = Withhold | Mapping[str, Any] | None
    SequencesSpec = Sequences | Mapping[str, Any] | None
    TextSpec = str | Text | Mapping[str, Any] | None
    DriftSpec = Drift | Mapping[str, Any] | None
    ImagesSpec = Images | Mapping[str, Any] | None
    SoundsSpec = Sounds | Mapping[str, Any] | None
    AdapterSpec = LowRankAdapters | Mapping[str, Any] | None
else:  # the same types as far as they can be told without importing torch; builders refuse the rest
    PartitionSpec = str | dict[str, Any] | Callable[..., Any] | None
    ModelSpec = str | Callable[..., Any] | None
    Columns = list[str]
    LossSpec = MetricSpecs = ModelTable = CommunalSpec = ServerSetSpec = StreamSpec = WithholdSpec = DriftSpec = Any
    ImagesSpec = SoundsSpec = TextSpec = SequencesSpec = AdapterSpec = Any

DEFAULT_TASK = "digits"
DATA = "The data"
CHANGES = "fedloom.data.changes"
MEDIA = "fedloom.data.media.media_settings"


def column_names(value: Any) -> Any:
    """Several columns, however they are given, as a list."""
    return list(value) if isinstance(value, tuple | set) else value


def joined_columns(value: Any) -> Any:
    """One column, or several with commas between them."""
    return ",".join(value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class TaskSection:
    """Data and model of a run."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    name: Annotated[str, Setting("A task of `fedloom list tasks`.", "--task", DATA)] = DEFAULT_TASK
    path: Annotated[
        str | None,
        Setting(
            "Your own data: CSV, NPZ, parquet, LEAF or a folder of files, images or sounds.",
            "--data",
            DATA,
            read=path_text,
        ),
    ] = None
    target: Annotated[
        str,
        Setting("The column of your table with the target; several columns of 0 and 1 are labels.", "--target", DATA,
                read=joined_columns),
    ] = "label"  # fmt: skip
    client_column: Annotated[
        str, Setting("The column of your table that says whose sample it is.", "--client-column", DATA)
    ] = "client"
    group_column: Annotated[
        str | None,
        Setting("The column of your table whose rows belong together, such as a patient: never split between training "
                "and testing.", "--group-column", DATA),
    ] = None  # fmt: skip
    ignore: Annotated[
        Columns, Setting("Columns of your table that are left out.", "--ignore", DATA, read=column_names)
    ] = field(default_factory=list)
    client_from: Annotated[
        str | None,
        Setting("Where the path of an image or sound names its client: a regular expression with one group.",
                "--client-from", DATA),
    ] = None  # fmt: skip
    file_column: Annotated[
        str | None,
        Setting("The column of your table with the paths of images or sounds.", "--file-column", DATA,
                usual="the first one whose first cell is such a path"),
    ] = None  # fmt: skip
    skip_unreadable: Annotated[
        bool,
        Setting("Whether images and sounds that cannot be read are left out, instead of an error.",
                "--skip-unreadable", DATA),
    ] = False  # fmt: skip
    images: Annotated[
        ImagesSpec,
        Setting("What your own images become: `{size = 48, channels = 1}`.", table=f"{MEDIA}:Images"),
    ] = None
    sounds: Annotated[
        SoundsSpec,
        Setting("What your own sounds become: `{rate = 8000, seconds = 1.5, mels = 40}`.", table=f"{MEDIA}:Sounds"),
    ] = None
    clients: Annotated[
        int | None, Ge(1), Setting("The number of clients.", "--clients", DATA, usual="the data's own number")
    ] = None
    partition: Annotated[
        PartitionSpec,
        Setting("How the data are divided, for instance `dirichlet(0.1)`, `shards(2)` or iid.", "--partition", DATA,
                usual="the data's own way"),
    ] = None  # fmt: skip
    test_share: Annotated[
        float, Ge(0), Lt(1), Setting("The share of each client's samples that is kept for testing.")
    ] = 0.2
    valid_share: Annotated[
        float, Ge(0), Lt(1), Setting("The share of each client's samples that is kept for validation.")
    ] = 0.0
    communal_per_class: Annotated[
        int, Ge(0), Setting("Test samples of each class that are set aside for everyone to see.")
    ] = 0
    communal: Annotated[
        CommunalSpec,
        Setting("Samples that the server and all clients may see: a share of the training data, or a file.",
                table=f"{CHANGES}.communal_set:Communal", read=f"{CHANGES}.communal_set:communal_table"),
    ] = None  # fmt: skip
    server_set: Annotated[
        ServerSetSpec,
        Setting("Samples that only the server has: a share of the training data, another data set, or a file.",
                table=f"{CHANGES}.server_set:ServerSet", read=f"{CHANGES}.server_set:server_table"),
    ] = None  # fmt: skip
    label_share: Annotated[
        float | None, Gt(0), Le(1), Setting("The share of each client's training samples that have a label.")
    ] = None
    stream: Annotated[
        StreamSpec,
        Setting("The tasks in which clients meet the classes, for instance `{tasks = 5, rounds = 6}`.",
                table=f"{CHANGES}.class_stream:ClassStream", read=f"{CHANGES}.class_stream:require_stream_table"),
    ] = None  # fmt: skip
    model: Annotated[
        ModelSpec,
        Setting("A model of `fedloom list models`, or your own: net.py:Net.", "--model", DATA,
                usual="the task's own model"),
    ] = None  # fmt: skip
    model_options: Annotated[Mapping[str, Any], Setting("Options of the model.")] = field(default_factory=dict)
    models: Annotated[
        ModelTable,
        Setting("The clients' models, where they differ, and who has which; `model` is then the server's."),
    ] = field(default_factory=dict)
    frozen: Annotated[
        Columns,
        Setting("Parameters that keep their initial weights and never travel, as patterns over their names: `body.*`.",
                read=column_names),
    ] = field(default_factory=list)  # fmt: skip
    adapters: Annotated[
        AdapterSpec,
        Setting("Low-rank adapters of linear layers, which alone train and travel, for instance `{rank = 4}`.",
                table="fedloom.core.model.low_rank_adapters:LowRankAdapters"),
    ] = None  # fmt: skip
    augment: Annotated[bool, Setting("Whether training images are shifted and mirrored at random.")] = False
    withhold: Annotated[
        WithholdSpec,
        Setting("A class that some clients lack in their training data, for instance `{label = 3, clients = 2}`.",
                table=f"{CHANGES}.withheld_class:Withhold"),
    ] = None  # fmt: skip
    drift: Annotated[
        DriftSpec,
        Setting("The rounds in which clients exchange their data, for instance `{rounds = [10]}`.",
                table=f"{CHANGES}.concept_drift:Drift"),
    ] = None  # fmt: skip
    options: Annotated[Mapping[str, Any], Setting("Settings that only this kind of task has.")] = field(
        default_factory=dict
    )
    kind: Annotated[
        Literal["classes", "number", "labels", "tokens"] | None,
        Setting("What the targets of your own data are: classes, number, labels or tokens.", "--kind", DATA,
                usual="what their values show"),
    ] = None  # fmt: skip
    empty_labels: Annotated[
        Literal["missing", "none"],
        Setting("What an empty cell of your labels says: `missing`, so that its row is left out, or `none` of them.",
                "--empty-labels", DATA),
    ] = "missing"  # fmt: skip
    text: Annotated[
        TextSpec,
        Setting("The column of your table with sentences, the only input; or `{column = 'review', words = 5000}`.",
                "--text", DATA, table="fedloom.data.tables.text_column:Text",
                read="fedloom.data.tables.text_column:text_table"),
    ] = None  # fmt: skip
    dates: Annotated[
        Mapping[str, str] | None,
        Setting("How the dates of columns are written, where it is not found by itself: `{admitted = '%d/%m/%Y'}`."),
    ] = None
    sequences: Annotated[
        SequencesSpec,
        Setting("What your table with a row per time step is: `{series = 'visit', order = 'minute'}`.",
                table="fedloom.data.sequences.sequence_settings:Sequences"),
    ] = None  # fmt: skip
    loss: Annotated[
        LossSpec,
        Setting("What models are trained by: a loss of `fedloom list losses`, or my_file.py:my_loss.", "--loss", DATA,
                usual="the usual one of the targets"),
    ] = None  # fmt: skip
    metrics: Annotated[
        MetricSpecs,
        Setting("What models are measured by, of `fedloom list metrics`; the first is the score in tables and figures.",
                usual="what suits the targets: accuracy, for numbers MAE, for labels macro F1",
                read="fedloom.metrics.make_metrics:metric_list"),
    ] = field(default_factory=list)  # fmt: skip
    seed: Annotated[
        int | None, Setting("The seed of the partition and of the initial model.", usual="the run's seed")
    ] = None
