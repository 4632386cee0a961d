"""Claims about methods that share a part of the model, on quadratics with a body of two columns and a head of one.

A round is an affine map of the shared part and all clients' own parts together, so the fixed points of these methods
can be solved for. Columns that are not shared must stay unchanged to the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor, nn

from fedloom.conformance.any_method import NORMED, normed_task
from fedloom.conformance.claim import FEW, ROUNDS, WORK, Claim
from fedloom.conformance.quadratics import STEPS, AffineMap, Matrix, Quadratics, relative
from fedloom.conformance.run_method import MethodRun, run_method
from fedloom.core.algorithm import Algorithm
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedbn import outside_batchnorm
from fedloom.methods.fedhybridavglg import FedHybridAvgLG
from fedloom.methods.moon import MOON
from fedloom.methods.partial_sharing import PartialSharing

PROBLEM = Quadratics.random()
BODY, HEAD = [0, 1], [2]
Phase = tuple[Sequence[int], int]
"""Which columns move, and for how many gradient steps."""
JOINT: tuple[Phase, ...] = ((BODY + HEAD, STEPS),)


class TwoPartModel(nn.Module):
    """``body . x[:2] + head . x[2:]``: the linear model of the quadratics, in two parts."""

    parts = {"head": ["head"]}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(2, 1, bias=False), nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.body.weight)
        nn.init.zeros_(self.head.weight)

    def features(self, x: Tensor) -> Tensor:
        """The output of the body."""
        out: Tensor = self.body(x[..., :2])
        return out

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both parts."""
        out: Tensor = self.features(x) + self.head(x[..., 2:])
        return out


def task() -> Task:
    """The quadratics with a model of two parts."""
    return replace(PROBLEM.task(), model=TwoPartModel())


def phases_of(client: int, phases: Sequence[Phase]) -> AffineMap:
    """The gradient steps of one client as a map; each phase moves only its columns."""
    whole = AffineMap(np.eye(3), np.zeros(3))
    step = PROBLEM.descent(client)
    for columns, steps in phases:
        moves = np.isin(np.arange(3), columns)[:, None]
        masked = AffineMap(np.where(moves, step.matrix, np.eye(3)), np.where(moves[:, 0], step.offset, 0.0))
        whole = whole.then(masked.times(steps))
    return whole


def fixed_points(shared: Sequence[int], phases: Sequence[Phase] = JOINT) -> Matrix:
    """The limits of clients' models (K×3) if the columns ``shared`` are averaged and the others stay with clients."""
    clients, width = PROBLEM.clients, 3
    average = np.eye(clients * width)
    for column in shared:
        for k in range(clients):
            average[k * width + column] = 0
            average[k * width + column, column::width] = PROBLEM.weights
    maps = [phases_of(k, phases) for k in range(clients)]
    apart = np.zeros((clients * width, clients * width))
    for k, one in enumerate(maps):
        apart[k * width : (k + 1) * width, k * width : (k + 1) * width] = one.matrix
    whole, offset = average @ apart, average @ np.concatenate([one.offset for one in maps])
    # columns that no phase moves have no unique fixed point: they stay at their initial value, zero
    idle = [c for c in range(width) if all(c not in columns for columns, _ in phases)]
    moving = [i for i in range(clients * width) if i % width not in idle]
    points = np.zeros(clients * width)
    points[moving] = np.linalg.solve(np.eye(len(moving)) - whole[np.ix_(moving, moving)], offset[moving])
    return points.reshape(clients, width)


def run_two_parts(method: Algorithm, rounds: int = 3 * ROUNDS) -> MethodRun:
    """Run a method on the two-part model, by default for enough rounds to reach its fixed point."""
    return run_method(task(), method, rounds, WORK)


def to_fedper(method: Algorithm) -> float:
    """The distance to the fixed point of a shared body and personal heads, trained together."""
    return relative(run_two_parts(method).prediction_rows(), fixed_points(BODY))


def to_lg(method: Algorithm) -> float:
    """The distance to the fixed point of a shared head and personal bodies, trained together."""
    return relative(run_two_parts(method).prediction_rows(), fixed_points(HEAD))


def to_fedrep(method: Algorithm) -> float:
    """The distance to FedRep's fixed point: one step of the personal head (an epoch), then steps of the shared body."""
    return relative(run_two_parts(method).prediction_rows(), fixed_points(BODY, ((HEAD, 1), (BODY, STEPS))))


def to_fedbabu(method: Algorithm) -> float:
    """The distance to the fixed point of a shared body under a fixed head."""
    return relative(run_two_parts(method).prediction_rows(), fixed_points(BODY, ((BODY, STEPS),)))


def unshared_changes(method: Algorithm) -> float:
    """The number of unshared entries that changed untrained: on the server, and at clients that were not selected."""
    if not isinstance(method, PartialSharing):
        return float("nan")
    run = run_method(task(), method, 1, WORK, selection=FEW)
    own = HEAD if method.shared == "body" else BODY
    changed = 0
    for _ in range(5):
        before = {name: rows.clone() for name, rows in run.state.client_states.rows.items()}
        run = run.continue_for(1)
        busy = run.records[-1]["selected"]
        idle = [k for k in range(PROBLEM.clients) if k not in busy]
        changed += int((run.row[own] != task().initial_row()[own]).sum())
        for name, rows in before.items():
            changed += int((run.state.client_states.rows[name][idle] != rows[idle]).sum())
    return float(changed)


def beside_batchnorm(method: Algorithm) -> float:
    """How many entries outside BatchNorm differ from FedAvg's after a round, before clients' BatchNorm differs."""
    task = normed_task()
    rows = [run_method(task, one, 1, NORMED).row for one in (method, FedAvg())]
    return float((rows[0] != rows[1])[outside_batchnorm(task)].sum())


def batchnorm_changes(method: Algorithm) -> float:
    """The number of entries of BatchNorm that changed untrained: on the server, and at clients that did not train."""
    task = normed_task()
    run, own = run_method(task, method, 1, NORMED, selection=FEW), ~outside_batchnorm(task)
    changed = 0
    for _ in range(5):
        before = run.state.client_states.rows["batchnorm"].clone()
        run = run.continue_for(1)
        idle = [k for k in range(task.federation.clients) if k not in run.records[-1]["selected"]]
        changed += int((run.row != task.initial_row())[own].sum())
        changed += int((run.state.client_states.rows["batchnorm"][idle] != before[idle]).sum())
    return float(changed)


def hybrid_small(method: Algorithm) -> float:
    """The distance of a hybrid with only small clients from FedAvg's fixed point, on the server and at every client."""
    if not isinstance(method, FedHybridAvgLG):
        return float("nan")
    run, wanted = run_two_parts(replace(method, threshold=float("inf"))), PROBLEM.fedavg().fixed_point
    return max(relative(run.row, wanted), relative(run.prediction_rows(), np.stack([wanted] * PROBLEM.clients)))


def hybrid_large(method: Algorithm) -> float:
    """The distance of a hybrid with only large clients from LG-FedAvg's fixed points."""
    if not isinstance(method, FedHybridAvgLG):
        return float("nan")
    return relative(run_two_parts(replace(method, threshold=0)).prediction_rows(), fixed_points(HEAD))


def moon_alone(method: Algorithm) -> float:
    """The distance of MOON without its contrastive term from FedAvg's fixed point."""
    if not isinstance(method, MOON):
        return float("nan")
    return relative(run_two_parts(replace(method, mu=0.0), ROUNDS).row, PROBLEM.fedavg().fixed_point)


UNTOUCHED = Claim(
    "leaves unshared columns untouched to the byte where nobody trains them", unshared_changes, within=0.0
)
SMALL = Claim("with only small clients is FedAvg", hybrid_small)
LARGE = Claim("with only large clients is LG-FedAvg", hybrid_large)

DECOUPLED: dict[str, tuple[Claim, ...]] = {
    "fedper": (Claim("stops at the fixed point of a shared body under own heads", to_fedper), UNTOUCHED),
    "lgfedavg": (Claim("stops at the fixed point of a shared head on own bodies", to_lg), UNTOUCHED),
    "fedrep": (Claim("stops at the fixed point of head steps, then shared body steps", to_fedrep), UNTOUCHED),
    "fedbabu": (Claim("stops at the fixed point of body steps under a fixed head", to_fedbabu), UNTOUCHED),
    "fedbn": (
        Claim("is FedAvg outside of BatchNorm to the byte after one round", beside_batchnorm, within=0.0),
        Claim("leaves BatchNorm untouched to the byte where nobody trains it", batchnorm_changes, within=0.0),
    ),
    "fedhybridavglg": (SMALL, LARGE),
    "fedhybridavglgdual": (SMALL, LARGE),
    "moon": (Claim("without its contrast (mu = 0) is FedAvg", moon_alone),),
}
