"""Numbers that Tavakoli 2023 (Fed-GALA) reports: tables 5.1 to 5.3, as printed.

Accuracies and, in brackets there, their standard deviations over ten initialisations. Known errors of the document are
noted where the numbers are used: the label rates of table 4.1 are swapped, averages of CiteSeer-4 and PubMed-8 have
another divisor.
"""

from __future__ import annotations

CENTRALISED = {"cora": 0.803, "citeseer": 0.703, "pubmed": 0.790}

REPORTED: dict[tuple[str, int, str], dict[str, float]] = {
    ("cora", 4, "global"): {"FedAvg": 0.672, "Fed-GALA": 0.725, "FedProx": 0.710, "Fed-GALAp": 0.734},
    ("cora", 4, "local"): {"FedAvg": 0.717, "Fed-GALA": 0.729, "FedProx": 0.724, "Fed-GALAp": 0.743},
    ("cora", 8, "global"): {
        "FedAvg": 0.469, "Fed-GALA": 0.623, "FedProx": 0.502, "Fed-GALAp": 0.631,
        "No-Augment": 0.597, "Max-Augment": 0.601, "No-Augment, prox": 0.6115, "Max-Augment, prox": 0.612,
    },
    ("cora", 8, "local"): {
        "FedAvg": 0.674, "Fed-GALA": 0.704, "FedProx": 0.680, "Fed-GALAp": 0.716,
        "No-Augment": 0.685, "Max-Augment": 0.697, "No-Augment, prox": 0.700, "Max-Augment, prox": 0.704,
    },
    ("citeseer", 4, "global"): {"FedAvg": 0.585, "Fed-GALA": 0.607, "FedProx": 0.615, "Fed-GALAp": 0.631},
    ("citeseer", 4, "local"): {"FedAvg": 0.611, "Fed-GALA": 0.631, "FedProx": 0.628, "Fed-GALAp": 0.646},
    ("citeseer", 8, "global"): {"FedAvg": 0.465, "Fed-GALA": 0.566, "FedProx": 0.535, "Fed-GALAp": 0.592},
    ("citeseer", 8, "local"): {"FedAvg": 0.562, "Fed-GALA": 0.600, "FedProx": 0.591, "Fed-GALAp": 0.621},
    ("pubmed", 4, "global"): {"FedAvg": 0.648, "Fed-GALA": 0.701, "FedProx": 0.654, "Fed-GALAp": 0.705},
    ("pubmed", 4, "local"): {"FedAvg": 0.731, "Fed-GALA": 0.741, "FedProx": 0.738, "Fed-GALAp": 0.758},
    ("pubmed", 8, "global"): {"FedAvg": 0.620, "Fed-GALA": 0.667, "FedProx": 0.634, "Fed-GALAp": 0.677},
    ("pubmed", 8, "local"): {"FedAvg": 0.720, "Fed-GALA": 0.733, "FedProx": 0.728, "Fed-GALAp": 0.739},
}  # fmt: skip
"""Tables 5.1, 5.2 and 5.3: graph, clients, how it was tested, then accuracy by method."""

FIRST_TOLERANCE: dict[tuple[str, int], float] = {
    **{("cora", clients): 1e-3 for clients in range(2, 9)},
    ("citeseer", 4): 1e-3,
    ("citeseer", 8): 1e-2,
    ("pubmed", 4): 1e-4,
    ("pubmed", 8): 1e-4,
}
"""alpha_1 as the document chose it for tests on the whole graph. For local tests it chose 0.01 on Cora and CiteSeer;
here one trained model is tested both ways."""
