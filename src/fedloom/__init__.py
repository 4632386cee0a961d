"""Fedloom: federated learning when clients differ.

>>> import fedloom as fl
>>> task = fl.task("digits", clients=20, partition=fl.dirichlet(0.1))
>>> history = fl.run(task, fl.FedProx(mu=0.1), rounds=10)
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from fedloom.core.renamed import RenamedModules, refuse_renamed

__version__ = "0.6.0.dev0"

_WHERE = {
    "fedloom.runs.run": ("run",),
    "fedloom.api.resume": ("resume",),
    "fedloom.api.compare": ("compare", "Comparison"),
    "fedloom.api.report": ("report",),
    "fedloom.api.plot": ("plot",),
    "fedloom.runs.plans.sweep": ("sweep", "Sweep"),
    "fedloom.runs.plans.advise.advise": ("advise",),
    "fedloom.runs.plans.advise.advice": ("Advice",),
    "fedloom.runs.results.history": ("History",),
    "fedloom.tasks.task": ("task",),
    "fedloom.tasks.own_data": ("task_of",),
    "fedloom.core.task": ("Task",),
    "fedloom.data.partition.registry": (
        "iid", "dirichlet", "shards", "classes_per_client", "quantities", "power_law", "natural",
    ),
    "fedloom.data.read": ("read",),
    "fedloom.data.from_arrays": ("from_arrays",),
    "fedloom.data.federation": ("Federation", "Ragged"),
    "fedloom.core.algorithm": ("Algorithm", "State"),
    "fedloom.core.facts": ("Fact",),
    "fedloom.core.cohort": ("Cohort",),
    "fedloom.core.message": ("Message", "Reply", "Replies", "Wave"),
    "fedloom.core.server_context": ("ServerContext",),
    "fedloom.core.prediction_stage": ("PredictionStage",),
    "fedloom.core.selector": ("Pool", "Choice"),
    "fedloom.privacy.local_noise": ("LocalNoise",),
    "fedloom.privacy.private_sum": ("PrivateSum",),
    "fedloom.core.local_work": ("LocalWork",),
    "fedloom.channel.downlink": ("Downlink",),
    "fedloom.privacy.sample_privacy": ("SamplePrivacy",),
    "fedloom.core.model.sub_models": ("FederatedDropout",),
    "fedloom.core.cycle": ("Cycle",),
    "fedloom.core.loss_step": ("LossStep",),
    "fedloom.core.pull": ("Affine",),
    "fedloom.core.layout": ("Layout",),
    "fedloom.core.model.adapted_model": ("add_modules",),
    "fedloom.aggregation.server_optimizer": ("ServerOptimizer",),
    "fedloom.core.declarations": ("Model", "Update", "Statistic", "Scalar"),
    "fedloom.core.aggregation_context": ("AggregationContext",),
    "fedloom.core.aggregator": ("Aggregator",),
    "fedloom.core.channel_step": ("ChannelStep", "Sender"),
    "fedloom.core.adversary": ("Adversary",),
    "fedloom.core.metric": ("Metric",),
    "fedloom.core.objective": ("Loss", "CrossEntropy"),
    "fedloom.losses.focal": ("Focal",),
    "fedloom.losses.mse": ("MSE",),
    "fedloom.losses.huber": ("Huber",),
    "fedloom.losses.bce": ("BCE",),
    "fedloom.metrics.accuracy": ("Accuracy",),
    "fedloom.metrics.auc": ("AUC",),
    "fedloom.metrics.macro_f1": ("MacroF1",),
    "fedloom.metrics.micro_f1": ("MicroF1",),
    "fedloom.metrics.recall": ("Recall",),
    "fedloom.metrics.mae": ("MAE",),
    "fedloom.metrics.rmse": ("RMSE",),
    "fedloom.metrics.r2": ("R2",),
    "fedloom.aggregation.mean": ("Mean",),
    "fedloom.aggregation.bulyan": ("Bulyan",),
    "fedloom.aggregation.centred_clipping": ("CentredClipping",),
    "fedloom.aggregation.dnc": ("DnC",),
    "fedloom.aggregation.fltrust": ("FLTrust",),
    "fedloom.aggregation.foolsgold": ("FoolsGold",),
    "fedloom.aggregation.geometric_median": ("GeometricMedian",),
    "fedloom.aggregation.krum": ("Krum", "MultiKrum"),
    "fedloom.aggregation.median": ("Median",),
    "fedloom.aggregation.norm_bounding": ("NormBounding",),
    "fedloom.privacy.private_mean": ("PrivateMean",),
    "fedloom.aggregation.robust_rule": ("RobustRule", "ShareRule"),
    "fedloom.aggregation.trimmed_mean": ("TrimmedMean",),
    "fedloom.channel.cmfl": ("CMFL",),
    "fedloom.secure.homomorphic_sum": ("CKKS",),
    "fedloom.secure.secure_sum": ("SecureSum",),
    "fedloom.channel.topk": ("TopK",),
    "fedloom.channel.randomk": ("RandomK",),
    "fedloom.channel.qsgd": ("QSGD",),
    "fedloom.channel.sign": ("Sign",),
    "fedloom.channel.sketch": ("Sketch",),
    "fedloom.channel.lowrank": ("LowRank",),
    "fedloom.channel.randommask": ("RandomMask",),
    "fedloom.channel.selectivesgd": ("SelectiveSGD",),
    "fedloom.channel.halfprecision": ("HalfPrecision",),
    "fedloom.privacy.svt": ("SVT",),
    "fedloom.privacy.percentile": ("Percentile",),
    "fedloom.attacks.alie": ("ALIE",),
    "fedloom.attacks.sign_flipping": ("SignFlipping",),
    "fedloom.selection.random": ("Random",),
    "fedloom.selection.poisson": ("Poisson",),
    "fedloom.selection.power_of_choice": ("PowerOfChoice",),
    "fedloom.selection.rawcs": ("RAWCS",),
    "fedloom.selection.oort": ("Oort",),
    "fedloom.methods.fedavg": ("FedAvg",),
    "fedloom.methods.fedprox": ("FedProx",),
    "fedloom.methods.fedavgm": ("FedAvgM",),
    "fedloom.methods.fedadagrad": ("FedAdagrad",),
    "fedloom.methods.fedadam": ("FedAdam",),
    "fedloom.methods.fedyogi": ("FedYogi",),
    "fedloom.methods.scaffold": ("SCAFFOLD",),
    "fedloom.methods.feddyn": ("FedDyn",),
    "fedloom.methods.fedper": ("FedPer",),
    "fedloom.methods.lgfedavg": ("LGFedAvg",),
    "fedloom.methods.fedrep": ("FedRep",),
    "fedloom.methods.fedbabu": ("FedBABU",),
    "fedloom.methods.fedhybridavglg": ("FedHybridAvgLG",),
    "fedloom.methods.fedhybridavglgdual": ("FedHybridAvgLGDual",),
    "fedloom.methods.size_threshold": ("curve_of",),
    "fedloom.methods.cfl": ("CFL",),
    "fedloom.methods.fesem": ("FeSEM",),
    "fedloom.methods.fjord": ("FjORD",),
    "fedloom.methods.heterofl": ("HeteroFL",),
    "fedloom.methods.ifca": ("IFCA",),
    "fedloom.methods.perfedavg": ("PerFedAvg",),
    "fedloom.methods.pfedme": ("PFedMe",),
    "fedloom.methods.fedu": ("FedU",),
    "fedloom.methods.ditto": ("Ditto",),
    "fedloom.methods.moon": ("MOON",),
    "fedloom.methods.selfsupervised.fedsimclr": ("FedSimCLR",),
    "fedloom.methods.selfsupervised.fedsimsiam": ("FedSimSiam",),
    "fedloom.methods.selfsupervised.fedca": ("FedCA",),
    "fedloom.methods.selfsupervised.fedcon": ("FedCon",),
    "fedloom.methods.selfsupervised.perfcl": ("PerFCL",),
    "fedloom.methods.selfsupervised.fedlid": ("FedLID",),
    "fedloom.methods.fedproto": ("FedProto",),
    "fedloom.methods.distillation.fedfmrl": ("FedFMRL",),
    "fedloom.methods.distillation.fld": ("FLD",),
    "fedloom.methods.fedharm.fedharm": ("FedHARM",),
    "fedloom.methods.fedharm.block_alignment": ("align_blocks",),
    "fedloom.methods.distillation.fedmd": ("FedMD",),
    "fedloom.methods.distillation.fdfaug": ("FDFAug",),
    "fedloom.methods.distillation.dsfl": ("DSFL",),
    "fedloom.methods.distillation.feddf": ("FedDF",),
    "fedloom.methods.incremental.fedavgexemplars": ("FedAvgExemplars",),
    "fedloom.methods.incremental.fedrcil": ("FedRCIL",),
    "fedloom.methods.fedseq.fedseq": ("FedSeq",),
    "fedloom.methods.fedseq.fedseqinter": ("FedSeqInter",),
    "fedloom.methods.fedavgexit": ("FedAvgExit",),
    "fedloom.methods.fedproxexit": ("FedProxExit",),
    "fedloom.methods.fedgala.fedgala": ("FedGala",),
    "fedloom.methods.fedgala.fedgalap": ("FedGalaP",),
    "fedloom.methods.local": ("Local",),
    "fedloom.methods.centralised": ("Centralised",),
    "fedloom.methods.fedsgd": ("FedSGD",),
    "fedloom.prediction.fedpredict": ("FedPredict",),
    "fedloom.prediction.finetune": ("FineTune",),
    "fedloom.prediction.last_local_model": ("LastLocalModel",),
    "fedloom.prediction.linear_probe": ("LinearProbe",),
    "fedloom.prediction.recalibrate": ("Recalibrate",),
    "fedloom.data.changes.concept_drift": ("with_concept_drift",),
    "fedloom.data.changes.withheld_class": ("with_withheld_class",),
    "fedloom.core.errors": ("FedloomError", "StoppedWarning"),
}  # fmt: skip
_RENAMED = {
    "own": "read",
    "Own": "LastLocalModel",
    "Site": "ServerContext",
    "Stage": "PredictionStage",
    "drifting": "with_concept_drift",
    "withholding": "with_withheld_class",
}
"""Public names of earlier versions, and what they are now."""
_HOME = {name: module for module, names in _WHERE.items() for name in names}
__all__ = sorted(_HOME)
sys.meta_path.append(RenamedModules())


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import fedloom`` costs next to nothing."""
    refuse_renamed(__name__, name, _RENAMED)
    if name not in _HOME:
        raise AttributeError(f"module 'fedloom' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
