"""The built-in parts of every kind, one line each: the name, and the module and the object that is imported for it.

An entry is written like an entry point of an installed package, and is read like one: when it is first used. Nothing is
imported here, so ``import fedloom`` can name every part and still cost next to nothing. The order is that of
``fedloom list``.
"""

from __future__ import annotations

METHODS: dict[str, str] = {
    "local": "fedloom.methods.local:Local",
    "centralised": "fedloom.methods.centralised:Centralised",
    "fedsgd": "fedloom.methods.fedsgd:FedSGD",
    "fedavg": "fedloom.methods.fedavg:FedAvg",
    "fedprox": "fedloom.methods.fedprox:FedProx",
    "fedavgm": "fedloom.methods.fedavgm:FedAvgM",
    "fedadagrad": "fedloom.methods.fedadagrad:FedAdagrad",
    "fedadam": "fedloom.methods.fedadam:FedAdam",
    "fedyogi": "fedloom.methods.fedyogi:FedYogi",
    "scaffold": "fedloom.methods.scaffold:SCAFFOLD",
    "feddyn": "fedloom.methods.feddyn:FedDyn",
    "fedper": "fedloom.methods.fedper:FedPer",
    "lgfedavg": "fedloom.methods.lgfedavg:LGFedAvg",
    "fedbn": "fedloom.methods.fedbn:FedBN",
    "fedrep": "fedloom.methods.fedrep:FedRep",
    "fedbabu": "fedloom.methods.fedbabu:FedBABU",
    "fedhybridavglg": "fedloom.methods.fedhybridavglg:FedHybridAvgLG",
    "fedhybridavglgdual": "fedloom.methods.fedhybridavglgdual:FedHybridAvgLGDual",
    "cfl": "fedloom.methods.cfl:CFL",
    "fesem": "fedloom.methods.fesem:FeSEM",
    "ifca": "fedloom.methods.ifca:IFCA",
    "fedseq": "fedloom.methods.fedseq.fedseq:FedSeq",
    "fedseqinter": "fedloom.methods.fedseq.fedseqinter:FedSeqInter",
    "perfedavg": "fedloom.methods.perfedavg:PerFedAvg",
    "pfedme": "fedloom.methods.pfedme:PFedMe",
    "fedu": "fedloom.methods.fedu:FedU",
    "ditto": "fedloom.methods.ditto:Ditto",
    "moon": "fedloom.methods.moon:MOON",
    "fedproto": "fedloom.methods.fedproto:FedProto",
    "heterofl": "fedloom.methods.heterofl:HeteroFL",
    "fjord": "fedloom.methods.fjord:FjORD",
    "fld": "fedloom.methods.distillation.fld:FLD",
    "fedmd": "fedloom.methods.distillation.fedmd:FedMD",
    "fdfaug": "fedloom.methods.distillation.fdfaug:FDFAug",
    "dsfl": "fedloom.methods.distillation.dsfl:DSFL",
    "feddf": "fedloom.methods.distillation.feddf:FedDF",
    "fedfmrl": "fedloom.methods.distillation.fedfmrl:FedFMRL",
    "fedharm": "fedloom.methods.fedharm.fedharm:FedHARM",
    "fedrcil": "fedloom.methods.incremental.fedrcil:FedRCIL",
    "fedavgexemplars": "fedloom.methods.incremental.fedavgexemplars:FedAvgExemplars",
    "fedavgexit": "fedloom.methods.fedavgexit:FedAvgExit",
    "fedproxexit": "fedloom.methods.fedproxexit:FedProxExit",
    "fedgala": "fedloom.methods.fedgala.fedgala:FedGala",
    "fedgalap": "fedloom.methods.fedgala.fedgalap:FedGalaP",
    "fedsimclr": "fedloom.methods.selfsupervised.fedsimclr:FedSimCLR",
    "fedsimsiam": "fedloom.methods.selfsupervised.fedsimsiam:FedSimSiam",
    "fedca": "fedloom.methods.selfsupervised.fedca:FedCA",
    "fedcon": "fedloom.methods.selfsupervised.fedcon:FedCon",
    "perfcl": "fedloom.methods.selfsupervised.perfcl:PerFCL",
    "fedlid": "fedloom.methods.selfsupervised.fedlid:FedLID",
}

SELECTORS: dict[str, str] = {
    "random": "fedloom.selection.random:Random",
    "poisson": "fedloom.selection.poisson:Poisson",
    "powerofchoice": "fedloom.selection.power_of_choice:PowerOfChoice",
    "rawcs": "fedloom.selection.rawcs:RAWCS",
    "oort": "fedloom.selection.oort:Oort",
}

AGGREGATORS: dict[str, str] = {
    "mean": "fedloom.aggregation.mean:Mean",
    "privatemean": "fedloom.privacy.private_mean:PrivateMean",
    "median": "fedloom.aggregation.median:Median",
    "trimmedmean": "fedloom.aggregation.trimmed_mean:TrimmedMean",
    "geometricmedian": "fedloom.aggregation.geometric_median:GeometricMedian",
    "krum": "fedloom.aggregation.krum:Krum",
    "multikrum": "fedloom.aggregation.krum:MultiKrum",
    "bulyan": "fedloom.aggregation.bulyan:Bulyan",
    "normbounding": "fedloom.aggregation.norm_bounding:NormBounding",
    "centredclipping": "fedloom.aggregation.centred_clipping:CentredClipping",
    "foolsgold": "fedloom.aggregation.foolsgold:FoolsGold",
    "fltrust": "fedloom.aggregation.fltrust:FLTrust",
    "dnc": "fedloom.aggregation.dnc:DnC",
    "nnm": "fedloom.aggregation.nnm:NNM",
    "pca": "fedloom.aggregation.pca:PCA",
    "servertraining": "fedloom.aggregation.server_training:ServerTraining",
}

CHANNEL_STEPS: dict[str, str] = {
    "topk": "fedloom.channel.topk:TopK",
    "randomk": "fedloom.channel.randomk:RandomK",
    "qsgd": "fedloom.channel.qsgd:QSGD",
    "sign": "fedloom.channel.sign:Sign",
    "sketch": "fedloom.channel.sketch:Sketch",
    "lowrank": "fedloom.channel.lowrank:LowRank",
    "randommask": "fedloom.channel.randommask:RandomMask",
    "selectivesgd": "fedloom.channel.selectivesgd:SelectiveSGD",
    "halfprecision": "fedloom.channel.halfprecision:HalfPrecision",
    "cmfl": "fedloom.channel.cmfl:CMFL",
    "localnoise": "fedloom.privacy.local_noise:LocalNoise",
    "svt": "fedloom.privacy.svt:SVT",
    "percentile": "fedloom.privacy.percentile:Percentile",
    "securesum": "fedloom.secure.secure_sum:SecureSum",
    "privatesum": "fedloom.privacy.private_sum:PrivateSum",
    "ckks": "fedloom.secure.homomorphic_sum:CKKS",
}

ATTACKS: dict[str, str] = {
    "signflipping": "fedloom.attacks.sign_flipping:SignFlipping",
    "gaussiannoise": "fedloom.attacks.gaussian_noise:GaussianNoise",
    "alie": "fedloom.attacks.alie:ALIE",
    "ipm": "fedloom.attacks.ipm:IPM",
    "minmax": "fedloom.attacks.min_max:MinMax",
    "minsum": "fedloom.attacks.min_max:MinSum",
    "labelflipping": "fedloom.attacks.label_flipping:LabelFlipping",
    "sybils": "fedloom.attacks.sybils:Sybils",
    "backdoor": "fedloom.attacks.backdoor:Backdoor",
    "freerider": "fedloom.attacks.free_rider:FreeRider",
    "linearleak": "fedloom.attacks.reconstruction.linear_leak:LinearLeak",
    "gradientinversion": "fedloom.attacks.reconstruction.gradient_inversion:GradientInversion",
    "trapweights": "fedloom.attacks.reconstruction.trap_weights:TrapWeights",
    "classfishing": "fedloom.attacks.reconstruction.class_fishing:ClassFishing",
    "gan": "fedloom.attacks.reconstruction.gan:GAN",
}

PREDICTION_STAGES: dict[str, str] = {
    "fedpredict": "fedloom.prediction.fedpredict:FedPredict",
    "finetune": "fedloom.prediction.finetune:FineTune",
    "lastlocalmodel": "fedloom.prediction.last_local_model:LastLocalModel",
    "linearprobe": "fedloom.prediction.linear_probe:LinearProbe",
    "recalibrate": "fedloom.prediction.recalibrate:Recalibrate",
}

LOSSES: dict[str, str] = {
    "cross_entropy": "fedloom.core.objective:CrossEntropy",
    "focal": "fedloom.losses.focal:Focal",
    "mse": "fedloom.losses.mse:MSE",
    "huber": "fedloom.losses.huber:Huber",
    "bce": "fedloom.losses.bce:BCE",
}

METRICS: dict[str, str] = {
    "accuracy": "fedloom.metrics.classification:Accuracy",
    "macro_f1": "fedloom.metrics.classification:MacroF1",
    "micro_f1": "fedloom.metrics.classification:MicroF1",
    "recall": "fedloom.metrics.classification:Recall",
    "auc": "fedloom.metrics.auc:AUC",
    "mae": "fedloom.metrics.regression:MAE",
    "rmse": "fedloom.metrics.regression:RMSE",
    "r2": "fedloom.metrics.regression:R2",
}

MODELS: dict[str, str] = {
    "logistic": "fedloom.models.mlp:logistic",
    "mlp": "fedloom.models.mlp:mlp",
    "cnn": "fedloom.models.cnn:cnn",
    "cnn-small": "fedloom.models.cnn:cnn_small",
    "cnn-two": "fedloom.models.cnn:cnn_two",
    "lenet": "fedloom.models.cnn:lenet",
    "lenet-small": "fedloom.models.cnn:lenet_small",
    "emnist-cnn": "fedloom.models.cnn:emnist_cnn",
    "resnet-small": "fedloom.models.resnet:resnet_small",
    "resnet8": "fedloom.models.resnet:resnet8",
    "resnet14": "fedloom.models.resnet:resnet14",
    "resnet20": "fedloom.models.resnet:resnet20",
    "mini-mobilenet": "fedloom.models.inverted_residual:mini_mobilenet",
    "mini-efficientnet": "fedloom.models.inverted_residual:mini_efficientnet",
    "conv1d": "fedloom.models.cnn:conv1d",
    "char-lstm": "fedloom.models.lstm:char_lstm",
    "word-lstm": "fedloom.models.lstm:word_lstm",
    "tagger": "fedloom.models.tagger:tagger",
    "sequence-conv": "fedloom.models.sequences:sequence_conv",
    "sequence-lstm": "fedloom.models.sequences:sequence_lstm",
    "bag-of-words": "fedloom.models.bag_of_words:bag_of_words",
    "late-fusion": "fedloom.models.late_fusion:late_fusion",
}

PARTITIONS: dict[str, str] = {
    "iid": "fedloom.data.partition.iid:Iid",
    "dirichlet": "fedloom.data.partition.label_skew:Dirichlet",
    "shards": "fedloom.data.partition.label_skew:Shards",
    "classes-per-client": "fedloom.data.partition.label_skew:ClassesPerClient",
    "quantities": "fedloom.data.partition.quantity_skew:Quantities",
    "power-law": "fedloom.data.partition.quantity_skew:PowerLaw",
    "natural": "fedloom.data.partition.natural:Natural",
}

TASKS: dict[str, str] = {
    "digits": "fedloom.tasks.dataset_tasks:DIGITS",
    "mnist": "fedloom.tasks.dataset_tasks:MNIST",
    "mnist-writers": "fedloom.tasks.dataset_tasks:MNIST_WRITERS",
    "fashion-mnist": "fedloom.tasks.dataset_tasks:FASHION_MNIST",
    "cifar10": "fedloom.tasks.dataset_tasks:CIFAR10",
    "cifar10-cnn": "fedloom.tasks.dataset_tasks:CIFAR10_CNN",
    "cifar100": "fedloom.tasks.dataset_tasks:CIFAR100",
    "gtsrb": "fedloom.tasks.dataset_tasks:GTSRB",
    "har": "fedloom.tasks.dataset_tasks:HAR",
    "har-columns": "fedloom.tasks.dataset_tasks:HAR_COLUMNS",
    "shakespeare": "fedloom.tasks.dataset_tasks:SHAKESPEARE",
    "stackexchange": "fedloom.tasks.dataset_tasks:STACKEXCHANGE",
    "flows": "fedloom.tasks.flows.learning.flow_task:FLOWS",
    "flows-subkind": "fedloom.tasks.flows.learning.flow_task:FLOWS_SUBKIND",
    "n8n": "fedloom.tasks.flows.learning.flow_task:N8N",
    "bpmn": "fedloom.tasks.flows.learning.flow_task:BPMN",
    "own-flows": "fedloom.tasks.flows.learning.flow_task:OWN_FLOWS",
    "cora": "fedloom.tasks.graphs.task:CORA",
    "citeseer": "fedloom.tasks.graphs.task:CITESEER",
    "pubmed": "fedloom.tasks.graphs.task:PUBMED",
    "twitch": "fedloom.tasks.graphs.task:TWITCH",
    "own-graph": "fedloom.tasks.graphs.task:OWN_GRAPH",
    "own": "fedloom.tasks.own_data:OWN",
}

DATASETS: dict[str, str] = {
    "digits": "fedloom.data.datasets.named:DIGITS",
    "mnist": "fedloom.data.datasets.named:MNIST",
    "mnist-writers": "fedloom.data.datasets.named:MNIST_WRITERS",
    "fashion-mnist": "fedloom.data.datasets.named:FASHION_MNIST",
    "cifar10": "fedloom.data.datasets.named:CIFAR10",
    "cifar100": "fedloom.data.datasets.named:CIFAR100",
    "gtsrb": "fedloom.data.datasets.named:GTSRB",
    "har": "fedloom.data.datasets.named:HAR",
    "har-columns": "fedloom.data.datasets.named:HAR_IN_COLUMNS",
    "shakespeare": "fedloom.data.datasets.named:SHAKESPEARE",
    "stackexchange": "fedloom.data.datasets.named:STACKEXCHANGE",
}

METHOD_ALIASES = {
    "isolated": "local",
    "localonly": "local",
    "standalone": "local",
    "central": "centralised",
    "centralized": "centralised",
    "federatedaveraging": "fedavg",
    "fedmomentum": "fedavgm",
    "fedopt": "fedadam",
}
SELECTOR_ALIASES = {"poc": "powerofchoice"}
STAGE_ALIASES = {"own": "lastlocalmodel"}
