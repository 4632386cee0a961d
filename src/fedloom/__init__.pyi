"""The public names of ``fedloom`` for type checkers and editors; ``make generated`` writes this file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fedloom.aggregation.bulyan import Bulyan as Bulyan
from fedloom.aggregation.centred_clipping import CentredClipping as CentredClipping
from fedloom.aggregation.dnc import DnC as DnC
from fedloom.aggregation.fltrust import FLTrust as FLTrust
from fedloom.aggregation.foolsgold import FoolsGold as FoolsGold
from fedloom.aggregation.geometric_median import GeometricMedian as GeometricMedian
from fedloom.aggregation.krum import Krum as Krum
from fedloom.aggregation.krum import MultiKrum as MultiKrum
from fedloom.aggregation.mean import Mean as Mean
from fedloom.aggregation.median import Median as Median
from fedloom.aggregation.nnm import NNM as NNM
from fedloom.aggregation.norm_bounding import NormBounding as NormBounding
from fedloom.aggregation.pca import PCA as PCA
from fedloom.aggregation.robust_rule import RobustRule as RobustRule
from fedloom.aggregation.robust_rule import ShareRule as ShareRule
from fedloom.aggregation.server_optimizer import ServerOptimizer as ServerOptimizer
from fedloom.aggregation.server_training import ServerTraining as ServerTraining
from fedloom.aggregation.trimmed_mean import TrimmedMean as TrimmedMean
from fedloom.api.compare import Comparison as Comparison
from fedloom.api.plot import plot as plot
from fedloom.api.report import report as report
from fedloom.attacks.alie import ALIE as ALIE
from fedloom.attacks.backdoor import Backdoor as Backdoor
from fedloom.attacks.free_rider import FreeRider as FreeRider
from fedloom.attacks.gaussian_noise import GaussianNoise as GaussianNoise
from fedloom.attacks.ipm import IPM as IPM
from fedloom.attacks.label_flipping import LabelFlipping as LabelFlipping
from fedloom.attacks.min_max import MinMax as MinMax
from fedloom.attacks.min_max import MinSum as MinSum
from fedloom.attacks.reconstruction.class_fishing import ClassFishing as ClassFishing
from fedloom.attacks.reconstruction.gan import GAN as GAN
from fedloom.attacks.reconstruction.gradient_inversion import GradientInversion as GradientInversion
from fedloom.attacks.reconstruction.linear_leak import LinearLeak as LinearLeak
from fedloom.attacks.reconstruction.trap_weights import TrapWeights as TrapWeights
from fedloom.attacks.sign_flipping import SignFlipping as SignFlipping
from fedloom.attacks.sybils import Sybils as Sybils
from fedloom.audits.of_run.result import Audit as Audit
from fedloom.audits.of_run.run_audit import Watch
from fedloom.channel.cmfl import CMFL as CMFL
from fedloom.channel.downlink import Downlink as Downlink
from fedloom.channel.halfprecision import HalfPrecision as HalfPrecision
from fedloom.channel.lowrank import LowRank as LowRank
from fedloom.channel.qsgd import QSGD as QSGD
from fedloom.channel.randomk import RandomK as RandomK
from fedloom.channel.randommask import RandomMask as RandomMask
from fedloom.channel.selectivesgd import SelectiveSGD as SelectiveSGD
from fedloom.channel.sign import Sign as Sign
from fedloom.channel.sketch import Sketch as Sketch
from fedloom.channel.topk import TopK as TopK
from fedloom.config.method_spec import Method
from fedloom.core.adversary import Adversary as Adversary
from fedloom.core.aggregator import AggregationContext as AggregationContext
from fedloom.core.aggregator import Aggregator as Aggregator
from fedloom.core.algorithm import Algorithm as Algorithm
from fedloom.core.algorithm import State as State
from fedloom.core.attack import Attack as Attack
from fedloom.core.channel_step import ChannelStep as ChannelStep
from fedloom.core.channel_step import Sender as Sender
from fedloom.core.cohort import Cohort as Cohort
from fedloom.core.cycle import Cycle as Cycle
from fedloom.core.declarations import Model as Model
from fedloom.core.declarations import Scalar as Scalar
from fedloom.core.declarations import Statistic as Statistic
from fedloom.core.declarations import Update as Update
from fedloom.core.errors import FedloomError as FedloomError
from fedloom.core.errors import StoppedWarning as StoppedWarning
from fedloom.core.errors import StopRun as StopRun
from fedloom.core.facts import Fact as Fact
from fedloom.core.layout import Layout as Layout
from fedloom.core.local_work import LocalWork as LocalWork
from fedloom.core.message import Message as Message
from fedloom.core.message import Replies as Replies
from fedloom.core.message import Reply as Reply
from fedloom.core.message import Wave as Wave
from fedloom.core.metric import Metric as Metric
from fedloom.core.model.adapted_model import add_modules as add_modules
from fedloom.core.model.low_rank_adapters import merge_adapters as merge_adapters
from fedloom.core.model.sub_models import FederatedDropout as FederatedDropout
from fedloom.core.objective import CrossEntropy as CrossEntropy
from fedloom.core.objective import Loss as Loss
from fedloom.core.prediction_stage import PredictionStage as PredictionStage
from fedloom.core.pull import Affine as Affine
from fedloom.core.selector import Choice as Choice
from fedloom.core.selector import Pool as Pool
from fedloom.core.server_context import ServerContext as ServerContext
from fedloom.core.task import Task as Task
from fedloom.core.trainer import LossStep as LossStep
from fedloom.data.changes.concept_drift import with_concept_drift as with_concept_drift
from fedloom.data.changes.withheld_class import with_withheld_class as with_withheld_class
from fedloom.data.federation import Federation as Federation
from fedloom.data.federation import Ragged as Ragged
from fedloom.data.from_arrays import from_arrays as from_arrays
from fedloom.data.partition.partitioner import classes_per_client as classes_per_client
from fedloom.data.partition.partitioner import dirichlet as dirichlet
from fedloom.data.partition.partitioner import iid as iid
from fedloom.data.partition.partitioner import natural as natural
from fedloom.data.partition.partitioner import power_law as power_law
from fedloom.data.partition.partitioner import quantities as quantities
from fedloom.data.partition.partitioner import shards as shards
from fedloom.data.read import read as read
from fedloom.losses.bce import BCE as BCE
from fedloom.losses.focal import Focal as Focal
from fedloom.losses.huber import Huber as Huber
from fedloom.losses.make_objective import LossSpec
from fedloom.losses.mse import MSE as MSE
from fedloom.methods.centralised import Centralised as Centralised
from fedloom.methods.cfl import CFL as CFL
from fedloom.methods.distillation.dsfl import DSFL as DSFL
from fedloom.methods.distillation.fdfaug import FDFAug as FDFAug
from fedloom.methods.distillation.feddf import FedDF as FedDF
from fedloom.methods.distillation.fedfmrl import FedFMRL as FedFMRL
from fedloom.methods.distillation.fedmd import FedMD as FedMD
from fedloom.methods.distillation.fld import FLD as FLD
from fedloom.methods.ditto import Ditto as Ditto
from fedloom.methods.fedadagrad import FedAdagrad as FedAdagrad
from fedloom.methods.fedadam import FedAdam as FedAdam
from fedloom.methods.fedavg import FedAvg as FedAvg
from fedloom.methods.fedavgexit import FedAvgExit as FedAvgExit
from fedloom.methods.fedavgm import FedAvgM as FedAvgM
from fedloom.methods.fedbabu import FedBABU as FedBABU
from fedloom.methods.fedbn import FedBN as FedBN
from fedloom.methods.feddyn import FedDyn as FedDyn
from fedloom.methods.fedgala.fedgala import FedGala as FedGala
from fedloom.methods.fedgala.fedgalap import FedGalaP as FedGalaP
from fedloom.methods.fedharm.block_alignment import align_blocks as align_blocks
from fedloom.methods.fedharm.fedharm import FedHARM as FedHARM
from fedloom.methods.fedhybridavglg import FedHybridAvgLG as FedHybridAvgLG
from fedloom.methods.fedhybridavglgdual import FedHybridAvgLGDual as FedHybridAvgLGDual
from fedloom.methods.fedper import FedPer as FedPer
from fedloom.methods.fedproto import FedProto as FedProto
from fedloom.methods.fedprox import FedProx as FedProx
from fedloom.methods.fedproxexit import FedProxExit as FedProxExit
from fedloom.methods.fedrep import FedRep as FedRep
from fedloom.methods.fedseq.fedseq import FedSeq as FedSeq
from fedloom.methods.fedseq.fedseqinter import FedSeqInter as FedSeqInter
from fedloom.methods.fedsgd import FedSGD as FedSGD
from fedloom.methods.fedu import FedU as FedU
from fedloom.methods.fedyogi import FedYogi as FedYogi
from fedloom.methods.fesem import FeSEM as FeSEM
from fedloom.methods.fjord import FjORD as FjORD
from fedloom.methods.heterofl import HeteroFL as HeteroFL
from fedloom.methods.ifca import IFCA as IFCA
from fedloom.methods.incremental.fedavgexemplars import FedAvgExemplars as FedAvgExemplars
from fedloom.methods.incremental.fedrcil import FedRCIL as FedRCIL
from fedloom.methods.lgfedavg import LGFedAvg as LGFedAvg
from fedloom.methods.local import Local as Local
from fedloom.methods.moon import MOON as MOON
from fedloom.methods.perfedavg import PerFedAvg as PerFedAvg
from fedloom.methods.pfedme import PFedMe as PFedMe
from fedloom.methods.scaffold import SCAFFOLD as SCAFFOLD
from fedloom.methods.selfsupervised.fedca import FedCA as FedCA
from fedloom.methods.selfsupervised.fedcon import FedCon as FedCon
from fedloom.methods.selfsupervised.fedlid import FedLID as FedLID
from fedloom.methods.selfsupervised.fedsimclr import FedSimCLR as FedSimCLR
from fedloom.methods.selfsupervised.fedsimsiam import FedSimSiam as FedSimSiam
from fedloom.methods.selfsupervised.perfcl import PerFCL as PerFCL
from fedloom.methods.size_threshold import curve_of as curve_of
from fedloom.metrics.auc import AUC as AUC
from fedloom.metrics.classification import Accuracy as Accuracy
from fedloom.metrics.classification import MacroF1 as MacroF1
from fedloom.metrics.classification import MicroF1 as MicroF1
from fedloom.metrics.classification import Recall as Recall
from fedloom.metrics.make_metrics import MetricSpecs
from fedloom.metrics.regression import MAE as MAE
from fedloom.metrics.regression import R2 as R2
from fedloom.metrics.regression import RMSE as RMSE
from fedloom.prediction.fedpredict import FedPredict as FedPredict
from fedloom.prediction.finetune import FineTune as FineTune
from fedloom.prediction.last_local_model import LastLocalModel as LastLocalModel
from fedloom.prediction.linear_probe import LinearProbe as LinearProbe
from fedloom.prediction.recalibrate import Recalibrate as Recalibrate
from fedloom.privacy.local_noise import LocalNoise as LocalNoise
from fedloom.privacy.percentile import Percentile as Percentile
from fedloom.privacy.private_mean import PrivateMean as PrivateMean
from fedloom.privacy.private_sum import PrivateSum as PrivateSum
from fedloom.privacy.sample_privacy import SamplePrivacy as SamplePrivacy
from fedloom.privacy.svt import SVT as SVT
from fedloom.rounds.client_work import ClientWork as ClientWork
from fedloom.rounds.early_stopping import EarlyStopping
from fedloom.runs.callbacks.callback import Callback as Callback
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.callbacks.copy_checkpoints import CopyCheckpoints as CopyCheckpoints
from fedloom.runs.plans.advise.advice import Advice as Advice
from fedloom.runs.plans.advise.halving import Move
from fedloom.runs.plans.members import TaskOf
from fedloom.runs.plans.sweep import Sweep as Sweep
from fedloom.runs.results.history import History as History
from fedloom.secure.homomorphic_sum import CKKS as CKKS
from fedloom.secure.secure_sum import SecureSum as SecureSum
from fedloom.selection.oort import Oort as Oort
from fedloom.selection.poisson import Poisson as Poisson
from fedloom.selection.power_of_choice import PowerOfChoice as PowerOfChoice
from fedloom.selection.random import Random as Random
from fedloom.selection.rawcs import RAWCS as RAWCS
from fedloom.tasks.architectures import ModelTable
from fedloom.tasks.own_data import task_of as task_of
from fedloom.tasks.settings import (
    AdapterSpec,
    Columns,
    CommunalSpec,
    DriftSpec,
    ImagesSpec,
    ModelSpec,
    PartitionSpec,
    SequencesSpec,
    ServerSetSpec,
    SoundsSpec,
    StreamSpec,
    TextSpec,
    WithholdSpec,
)

__version__: str
__all__: list[str]

def run(
    task: Task | str,
    method: Method = ...,
    *,
    out: str | Path | None = ...,
    callbacks: Sequence[Observer] = ...,
    observers: Sequence[Observer] = ...,
    track: Sequence[str] = ...,
    progress: bool | None = ...,
    rounds: int = ...,
    seed: int = ...,
    weight_by: Literal["samples", "steps", "uniform"] = ...,
    execution: str = ...,
    workers: int = ...,
    engine: str = ...,
    ray_address: str | None = ...,
    eval_every: int = ...,
    eval_clients: int | None = ...,
    clients_on_global: bool = ...,
    checkpoint_every: int = ...,
    size_groups: list[int] | None = ...,
    new_clients: int = ...,
    start_from: str | None = ...,
    start_without: list[str] = ...,
    local: LocalWork | Mapping[str, Any] | None = ...,
    sample_privacy: SamplePrivacy | Mapping[str, Any] | None = ...,
    selection: Any = ...,
    aggregation: Any = ...,
    server_optimizer: ServerOptimizer | Mapping[str, Any] | None = ...,
    channel: list[Any] = ...,
    downlink: Downlink | Mapping[str, Any] | None = ...,
    federated_dropout: FederatedDropout | Mapping[str, Any] | None = ...,
    adversary: Any = ...,
    prediction: list[Any] = ...,
    early_stopping: EarlyStopping | Mapping[str, Any] | None = ...,
) -> History:
    """Train a task with a method and return what was measured.

    A run with a folder can be stopped at any time and continued with ``fl.resume`` or ``fedloom resume``.

    Args:
        task: A task, or the name of a task, which is then built with its default settings.
        method: A method's spec (``"fedprox:mu=0.1"``, with prediction stages ``"fedavg+finetune"``), or a method.
        out: A folder for the run and its report; it must not contain a run yet. Without it, the run stays in memory.
        callbacks: What is called while the run works and may stop it: ``fl.Callback`` objects, and functions that get
            each round's record.
        observers: More callbacks; the earlier name of the same list.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        progress: Whether a progress bar with the time left is shown. By default it is in a terminal and in a notebook.
        rounds: The number of rounds.
        seed: The seed of all random choices: same seed, same bytes.
        weight_by: What a client's weight in a mean is proportional to.
        execution: How a cohort trains, of ``fedloom list executions``.
        workers: Worker processes; they never change a result.
        engine: Where clients train: auto, or one of ``fedloom list engines``; it never changes a result.
        ray_address: The host:port of a Ray cluster, or auto for the one of this machine. By default a local Ray
            is started.
        eval_every: Evaluate every n rounds; 0 is never.
        eval_clients: How many clients are evaluated, drawn once. By default all.
        clients_on_global: Whether the clients' own models are also measured on the global test set.
        checkpoint_every: Write a checkpoint every n rounds.
        size_groups: Numbers of training samples at which clients are divided into groups for reports. By
            default terciles.
        new_clients: Clients held out of training; they are only evaluated.
        start_from: Start from the model of a run's folder, of a saved model, or of a .safetensors file. By
            default a random initial model.
        start_without: Tensors that ``start_from`` leaves as they are, as patterns: ``head.*`` for other
            classes.
        local: What a client does between receiving a model and answering.
        sample_privacy: Clients train by DP-SGD, which protects each of their samples, also from the server.
        selection: Who takes part in a round, of ``fedloom list selectors``.
        aggregation: How replies become one, of ``fedloom list aggregators``; several in a list act in turn.
        server_optimizer: How the server uses the mean of the replies.
        channel: What is done to updates on their way to the server, in order: ``fedloom list channels``.
        downlink: How models go down to clients. By default as they are.
        federated_dropout: Clients train sub-models, some units of every hidden layer.
        adversary: Clients that attack, of ``fedloom list attacks``.
        prediction: Stages between training and prediction, in order: ``fedloom list stages``.
        early_stopping: When to stop before the last round, by the clients' validation data.

    Returns:
        The history: the config, a record per round, and a row per client. A run that diverged has ``stopped``, and
        warns with ``fl.StoppedWarning``; one that a callback stopped has ``stopped`` too, and can be continued.
    """

def compare(
    task: Task | str | TaskOf,
    methods: Sequence[Method],
    *,
    seeds: int = ...,
    reach: float | None = ...,
    out: str | Path | None = ...,
    callbacks: Sequence[Observer] = ...,
    observers: Sequence[Observer] = ...,
    track: Sequence[str] = ...,
    progress: bool | None = ...,
    rounds: int = ...,
    seed: int = ...,
    weight_by: Literal["samples", "steps", "uniform"] = ...,
    execution: str = ...,
    workers: int = ...,
    engine: str = ...,
    ray_address: str | None = ...,
    eval_every: int = ...,
    eval_clients: int | None = ...,
    clients_on_global: bool = ...,
    checkpoint_every: int = ...,
    size_groups: list[int] | None = ...,
    new_clients: int = ...,
    start_from: str | None = ...,
    start_without: list[str] = ...,
    local: LocalWork | Mapping[str, Any] | None = ...,
    sample_privacy: SamplePrivacy | Mapping[str, Any] | None = ...,
    selection: Any = ...,
    aggregation: Any = ...,
    server_optimizer: ServerOptimizer | Mapping[str, Any] | None = ...,
    channel: list[Any] = ...,
    downlink: Downlink | Mapping[str, Any] | None = ...,
    federated_dropout: FederatedDropout | Mapping[str, Any] | None = ...,
    adversary: Any = ...,
    prediction: list[Any] = ...,
    early_stopping: EarlyStopping | Mapping[str, Any] | None = ...,
) -> Comparison:
    """Run several methods on the same data with the same seeds.

    If a method diverges, its measurements are kept and the comparison continues.

    Args:
        task: A task, the name of a task, or a function from a seed to a task, so that each seed has its own partition
            and model.
        methods: Specs (``"fedprox:mu=0.1"``), methods or classes of methods.
        seeds: How many seeds each method is run with; the first is ``seed`` (default 0).
        reach: A value of the score; the table then also says after how many rounds each method reached it.
        out: A folder for the comparison and its report. The same call continues a stopped comparison. With more
            methods, seeds or rounds it adds them: runs that are there are not repeated.
        callbacks: What is called while the runs work and may stop each of them, see ``fl.run``; every run has its own
            shallow copy of a callback.
        observers: More callbacks; the earlier name of the same list.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        progress: Whether a progress bar with the time left is shown. By default it is in a terminal and in a notebook.
        rounds: The number of rounds.
        seed: The seed of all random choices: same seed, same bytes.
        weight_by: What a client's weight in a mean is proportional to.
        execution: How a cohort trains, of ``fedloom list executions``.
        workers: Worker processes; they never change a result.
        engine: Where clients train: auto, or one of ``fedloom list engines``; it never changes a result.
        ray_address: The host:port of a Ray cluster, or auto for the one of this machine. By default a local Ray
            is started.
        eval_every: Evaluate every n rounds; 0 is never.
        eval_clients: How many clients are evaluated, drawn once. By default all.
        clients_on_global: Whether the clients' own models are also measured on the global test set.
        checkpoint_every: Write a checkpoint every n rounds.
        size_groups: Numbers of training samples at which clients are divided into groups for reports. By
            default terciles.
        new_clients: Clients held out of training; they are only evaluated.
        start_from: Start from the model of a run's folder, of a saved model, or of a .safetensors file. By
            default a random initial model.
        start_without: Tensors that ``start_from`` leaves as they are, as patterns: ``head.*`` for other
            classes.
        local: What a client does between receiving a model and answering.
        sample_privacy: Clients train by DP-SGD, which protects each of their samples, also from the server.
        selection: Who takes part in a round, of ``fedloom list selectors``.
        aggregation: How replies become one, of ``fedloom list aggregators``; several in a list act in turn.
        server_optimizer: How the server uses the mean of the replies.
        channel: What is done to updates on their way to the server, in order: ``fedloom list channels``.
        downlink: How models go down to clients. By default as they are.
        federated_dropout: Clients train sub-models, some units of every hidden layer.
        adversary: Clients that attack, of ``fedloom list attacks``.
        prediction: Stages between training and prediction, in order: ``fedloom list stages``.
        early_stopping: When to stop before the last round, by the clients' validation data.
    """

def sweep(
    task: Task | str | TaskOf,
    method: Method = ...,
    *,
    grid: Mapping[str, Iterable[Any]],
    seeds: int = ...,
    metrics: Sequence[str] = ...,
    out: str | Path | None = ...,
    rounds: int = ...,
    seed: int = ...,
    weight_by: Literal["samples", "steps", "uniform"] = ...,
    execution: str = ...,
    workers: int = ...,
    engine: str = ...,
    ray_address: str | None = ...,
    eval_every: int = ...,
    eval_clients: int | None = ...,
    clients_on_global: bool = ...,
    checkpoint_every: int = ...,
    size_groups: list[int] | None = ...,
    new_clients: int = ...,
    start_from: str | None = ...,
    start_without: list[str] = ...,
    local: LocalWork | Mapping[str, Any] | None = ...,
    sample_privacy: SamplePrivacy | Mapping[str, Any] | None = ...,
    selection: Any = ...,
    aggregation: Any = ...,
    server_optimizer: ServerOptimizer | Mapping[str, Any] | None = ...,
    channel: list[Any] = ...,
    downlink: Downlink | Mapping[str, Any] | None = ...,
    federated_dropout: FederatedDropout | Mapping[str, Any] | None = ...,
    adversary: Any = ...,
    prediction: list[Any] = ...,
    early_stopping: EarlyStopping | Mapping[str, Any] | None = ...,
) -> Sweep:
    """Run every combination of a grid with the same seeds, choose on validation data, and report test data.

    Where clients have no validation parts, a share of their samples is set aside for the choice.

    Args:
        task: A task, the name of a task, or a function from a seed to a task.
        method: A method's spec, a method, or its class.
        grid: The values to try for each config key, for instance
            ``{"method.mu": [0.01, 0.1], "local.lr": [0.05, 0.1]}``.
        seeds: How many seeds each combination is run with; the first is ``seed`` (default 0).
        metrics: Short names (``fedloom.runs.plans.sweep.METRICS``) or full names, reported on test
            data; what the first one is on validation data decides the order.
        out: A folder for the sweep. The same call continues a stopped sweep, and so does ``fedloom resume`` if the task
            and the method have names.
        rounds: The number of rounds.
        seed: The seed of all random choices: same seed, same bytes.
        weight_by: What a client's weight in a mean is proportional to.
        execution: How a cohort trains, of ``fedloom list executions``.
        workers: Worker processes; they never change a result.
        engine: Where clients train: auto, or one of ``fedloom list engines``; it never changes a result.
        ray_address: The host:port of a Ray cluster, or auto for the one of this machine. By default a local Ray
            is started.
        eval_every: Evaluate every n rounds; 0 is never.
        eval_clients: How many clients are evaluated, drawn once. By default all.
        clients_on_global: Whether the clients' own models are also measured on the global test set.
        checkpoint_every: Write a checkpoint every n rounds.
        size_groups: Numbers of training samples at which clients are divided into groups for reports. By
            default terciles.
        new_clients: Clients held out of training; they are only evaluated.
        start_from: Start from the model of a run's folder, of a saved model, or of a .safetensors file. By
            default a random initial model.
        start_without: Tensors that ``start_from`` leaves as they are, as patterns: ``head.*`` for other
            classes.
        local: What a client does between receiving a model and answering.
        sample_privacy: Clients train by DP-SGD, which protects each of their samples, also from the server.
        selection: Who takes part in a round, of ``fedloom list selectors``.
        aggregation: How replies become one, of ``fedloom list aggregators``; several in a list act in turn.
        server_optimizer: How the server uses the mean of the replies.
        channel: What is done to updates on their way to the server, in order: ``fedloom list channels``.
        downlink: How models go down to clients. By default as they are.
        federated_dropout: Clients train sub-models, some units of every hidden layer.
        adversary: Clients that attack, of ``fedloom list attacks``.
        prediction: Stages between training and prediction, in order: ``fedloom list stages``.
        early_stopping: When to stop before the last round, by the clients' validation data.
    """

def advise(
    task: Task | str | Callable[[int], Task],
    minutes: float = ...,
    *,
    methods: Sequence[str] | str | None = ...,
    out: str | Path | None = ...,
    watch: Callable[[Move], None] = ...,
    rounds: int = ...,
    seed: int = ...,
    weight_by: Literal["samples", "steps", "uniform"] = ...,
    execution: str = ...,
    workers: int = ...,
    engine: str = ...,
    ray_address: str | None = ...,
    eval_every: int = ...,
    eval_clients: int | None = ...,
    clients_on_global: bool = ...,
    checkpoint_every: int = ...,
    size_groups: list[int] | None = ...,
    new_clients: int = ...,
    start_from: str | None = ...,
    start_without: list[str] = ...,
    local: LocalWork | Mapping[str, Any] | None = ...,
    sample_privacy: SamplePrivacy | Mapping[str, Any] | None = ...,
    selection: Any = ...,
    aggregation: Any = ...,
    server_optimizer: ServerOptimizer | Mapping[str, Any] | None = ...,
    channel: list[Any] = ...,
    downlink: Downlink | Mapping[str, Any] | None = ...,
    federated_dropout: FederatedDropout | Mapping[str, Any] | None = ...,
    adversary: Any = ...,
    prediction: list[Any] = ...,
) -> Advice:
    """Find the methods to use for small, intermediate and big clients, with a tournament of methods.

    Args:
        task: A task, the name of a task, or a function from a seed to a task. A named task without validation data is
            given some; a task that is a Python object must have validation data.
        minutes: The approximate duration of the tournament.
        methods: Only these methods (and ``local``), as specs or as one comma-separated text.
        out: A folder for the runs. The same call continues a stopped tournament.
        watch: A function that is called before each run.
        rounds: The number of rounds.
        seed: The seed of all random choices: same seed, same bytes.
        weight_by: What a client's weight in a mean is proportional to.
        execution: How a cohort trains, of ``fedloom list executions``.
        workers: Worker processes; they never change a result.
        engine: Where clients train: auto, or one of ``fedloom list engines``; it never changes a result.
        ray_address: The host:port of a Ray cluster, or auto for the one of this machine. By default a local Ray
            is started.
        eval_every: Evaluate every n rounds; 0 is never.
        eval_clients: How many clients are evaluated, drawn once. By default all.
        clients_on_global: Whether the clients' own models are also measured on the global test set.
        checkpoint_every: Write a checkpoint every n rounds.
        size_groups: Numbers of training samples at which clients are divided into groups for reports. By
            default terciles.
        new_clients: Clients held out of training; they are only evaluated.
        start_from: Start from the model of a run's folder, of a saved model, or of a .safetensors file. By
            default a random initial model.
        start_without: Tensors that ``start_from`` leaves as they are, as patterns: ``head.*`` for other
            classes.
        local: What a client does between receiving a model and answering.
        sample_privacy: Clients train by DP-SGD, which protects each of their samples, also from the server.
        selection: Who takes part in a round, of ``fedloom list selectors``.
        aggregation: How replies become one, of ``fedloom list aggregators``; several in a list act in turn.
        server_optimizer: How the server uses the mean of the replies.
        channel: What is done to updates on their way to the server, in order: ``fedloom list channels``.
        downlink: How models go down to clients. By default as they are.
        federated_dropout: Clients train sub-models, some units of every hidden layer.
        adversary: Clients that attack, of ``fedloom list attacks``.
        prediction: Stages between training and prediction, in order: ``fedloom list stages``.
    """

def resume(
    folder: str | Path,
    *,
    task: Task | TaskOf | None = ...,
    method: Algorithm | None = ...,
    callbacks: Sequence[Observer] = ...,
    observers: Sequence[Observer] = ...,
    track: Sequence[str] = ...,
    progress: bool | None = ...,
    trust: bool = ...,
    rounds: int | None = ...,
    from_round: int | None = ...,
    workers: int | None = ...,
    engine: str | None = ...,
    ray_address: str | None = ...,
) -> History | Comparison:
    """Continue a stopped run or comparison. The result has the same bytes as if it had never been stopped.

    With more ``rounds``, the result has the bytes of a run that was started with that many; a run whose rounds depend
    on their number (the schedules ``cosine`` and ``onecycle``) is refused. A run that diverged continues only with
    ``from_round``.

    Args:
        folder: The folder of a run or of a comparison.
        task: The task, if it is a Python object that the folder cannot name.
        method: The run's method, if it is a Python object. A comparison of Python objects is continued by the call
            that started it.
        callbacks: What is called while the run works and may stop it, see ``fl.run``. Each gets the records of the
            rounds before the stop too.
        observers: More callbacks; the earlier name of the same list.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        progress: Whether a progress bar with the time left is shown. By default it is in a terminal and in a notebook.
        trust: Whether code that the folder names may run although it has changed since the start, or you have started
            no run with it on this machine.
        rounds: More rounds than it was started with, to continue further.
        from_round: For a run: continue after this round, one of the last checkpoints; later records are
            forgotten.
        workers: Worker processes; they never change a result.
        engine: For a run: another engine; it never changes a result.
        ray_address: For a run: the host:port of another Ray cluster, or auto.
    """

def audit(
    task: Task | str,
    method: Method = ...,
    *,
    minutes: float = ...,
    defences: Sequence[str] | None = ...,
    out: str | Path | None = ...,
    watch: Watch = ...,
    rounds: int = ...,
    seed: int = ...,
    weight_by: Literal["samples", "steps", "uniform"] = ...,
    execution: str = ...,
    workers: int = ...,
    engine: str = ...,
    ray_address: str | None = ...,
    eval_every: int = ...,
    eval_clients: int | None = ...,
    clients_on_global: bool = ...,
    checkpoint_every: int = ...,
    size_groups: list[int] | None = ...,
    new_clients: int = ...,
    start_from: str | None = ...,
    start_without: list[str] = ...,
    local: LocalWork | Mapping[str, Any] | None = ...,
    sample_privacy: SamplePrivacy | Mapping[str, Any] | None = ...,
    selection: Any = ...,
    aggregation: Any = ...,
    server_optimizer: ServerOptimizer | Mapping[str, Any] | None = ...,
    channel: list[Any] = ...,
    downlink: Downlink | Mapping[str, Any] | None = ...,
    federated_dropout: FederatedDropout | Mapping[str, Any] | None = ...,
    prediction: list[Any] = ...,
) -> Audit:
    """Attack a run with everything that applies, with and without defences, and say what leaked and what broke.

    Args:
        task: A task, or the name of one with its usual settings.
        method: A method's spec, or a method.
        minutes: How long it may take.
        defences: What the run is protected with, one after the other, as ``--set`` takes it:
            ``["aggregation=median", "channel=securesum"]``. By default a robust rule, a secure sum, and noise.
        out: A folder, which gets ``audit.html`` and ``audit.json``. The same call continues a stopped audit.
        watch: A function that is called before each attack.
        rounds: The number of rounds.
        seed: The seed of all random choices: same seed, same bytes.
        weight_by: What a client's weight in a mean is proportional to.
        execution: How a cohort trains, of ``fedloom list executions``.
        workers: Worker processes; they never change a result.
        engine: Where clients train: auto, or one of ``fedloom list engines``; it never changes a result.
        ray_address: The host:port of a Ray cluster, or auto for the one of this machine. By default a local Ray
            is started.
        eval_every: Evaluate every n rounds; 0 is never.
        eval_clients: How many clients are evaluated, drawn once. By default all.
        clients_on_global: Whether the clients' own models are also measured on the global test set.
        checkpoint_every: Write a checkpoint every n rounds.
        size_groups: Numbers of training samples at which clients are divided into groups for reports. By
            default terciles.
        new_clients: Clients held out of training; they are only evaluated.
        start_from: Start from the model of a run's folder, of a saved model, or of a .safetensors file. By
            default a random initial model.
        start_without: Tensors that ``start_from`` leaves as they are, as patterns: ``head.*`` for other
            classes.
        local: What a client does between receiving a model and answering.
        sample_privacy: Clients train by DP-SGD, which protects each of their samples, also from the server.
        selection: Who takes part in a round, of ``fedloom list selectors``.
        aggregation: How replies become one, of ``fedloom list aggregators``; several in a list act in turn.
        server_optimizer: How the server uses the mean of the replies.
        channel: What is done to updates on their way to the server, in order: ``fedloom list channels``.
        downlink: How models go down to clients. By default as they are.
        federated_dropout: Clients train sub-models, some units of every hidden layer.
        prediction: Stages between training and prediction, in order: ``fedloom list stages``.
    """

def task(
    name: str,
    *,
    alpha: float | None = ...,
    path: str | None = ...,
    target: str = ...,
    client_column: str = ...,
    group_column: str | None = ...,
    ignore: Columns = ...,
    client_from: str | None = ...,
    file_column: str | None = ...,
    skip_unreadable: bool = ...,
    images: ImagesSpec = ...,
    sounds: SoundsSpec = ...,
    clients: int | None = ...,
    partition: PartitionSpec = ...,
    test_share: float = ...,
    valid_share: float = ...,
    communal_per_class: int = ...,
    communal: CommunalSpec = ...,
    server_set: ServerSetSpec = ...,
    label_share: float | None = ...,
    stream: StreamSpec = ...,
    model: ModelSpec = ...,
    model_options: Mapping[str, Any] = ...,
    models: ModelTable = ...,
    frozen: Columns = ...,
    adapters: AdapterSpec = ...,
    augment: bool = ...,
    withhold: WithholdSpec = ...,
    drift: DriftSpec = ...,
    options: Mapping[str, Any] = ...,
    kind: Literal["classes", "number", "labels", "tokens"] | None = ...,
    empty_labels: Literal["missing", "none"] = ...,
    text: TextSpec = ...,
    dates: Mapping[str, str] | None = ...,
    sequences: SequencesSpec = ...,
    loss: LossSpec = ...,
    metrics: MetricSpecs = ...,
    seed: int | None = ...,
) -> Task:
    """A named task.

    Args:
        name: A name of ``fedloom list tasks``.
        alpha: Short for ``partition=dirichlet(alpha)``.
        path: Your own data: CSV, NPZ, parquet, LEAF or a folder of files, images or sounds.
        target: The column of your table with the target; several columns of 0 and 1 are labels.
        client_column: The column of your table that says whose sample it is.
        group_column: The column of your table whose rows belong together, such as a patient: never split
            between training and testing.
        ignore: Columns of your table that are left out.
        client_from: Where the path of an image or sound names its client: a regular expression with one group.
        file_column: The column of your table with the paths of images or sounds. By default the first one whose
            first cell is such a path.
        skip_unreadable: Whether images and sounds that cannot be read are left out, instead of an error.
        images: What your own images become: ``{size = 48, channels = 1}``.
        sounds: What your own sounds become: ``{rate = 8000, seconds = 1.5, mels = 40}``.
        clients: The number of clients. By default the data's own number.
        partition: How the data are divided, for instance ``dirichlet(0.1)``, ``shards(2)`` or iid. By default
            the data's own way.
        test_share: The share of each client's samples that is kept for testing.
        valid_share: The share of each client's samples that is kept for validation.
        communal_per_class: Test samples of each class that are set aside for everyone to see.
        communal: Samples that the server and all clients may see: a share of the training data, or a file.
        server_set: Samples that only the server has: a share of the training data, another data set, or a file.
        label_share: The share of each client's training samples that have a label.
        stream: The tasks in which clients meet the classes, for instance ``{tasks = 5, rounds = 6}``.
        model: A model of ``fedloom list models``, or your own: net.py:Net. By default the task's own model.
        model_options: Options of the model.
        models: The clients' models, where they differ, and who has which; ``model`` is then the server's.
        frozen: Parameters that keep their initial weights and never travel, as patterns over their names:
            ``body.*``.
        adapters: Low-rank adapters of linear layers, which alone train and travel, for instance ``{rank = 4}``.
        augment: Whether training images are shifted and mirrored at random.
        withhold: A class that some clients lack in their training data, for instance ``{label = 3, clients =
            2}``.
        drift: The rounds in which clients exchange their data, for instance ``{rounds = [10]}``.
        options: Settings that only this kind of task has.
        kind: What the targets of your own data are: classes, number, labels or tokens. By default what their
            values show.
        empty_labels: What an empty cell of your labels says: ``missing``, so that its row is left out, or
            ``none`` of them.
        text: The column of your table with sentences, the only input; or ``{column = 'review', words = 5000}``.
        dates: How the dates of columns are written, where it is not found by itself: ``{admitted =
            '%d/%m/%Y'}``.
        sequences: What your table with a row per time step is: ``{series = 'visit', order = 'minute'}``.
        loss: What models are trained by: a loss of ``fedloom list losses``, or my_file.py:my_loss. By default
            the usual one of the targets.
        metrics: What models are measured by, of ``fedloom list metrics``; the first is the score in tables and
            figures. By default what suits the targets: accuracy, for numbers MAE, for labels macro F1.
        seed: The seed of the partition and of the initial model. By default the run's seed.
    """
