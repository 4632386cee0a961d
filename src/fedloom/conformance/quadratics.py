"""A problem with known solutions: clients whose losses are quadratics.

Client k minimises ``F_k(w) = 1/2 (w - m_k)' A_k (w - m_k)`` with its own curvature and optimum. Gradient
descent is then an affine map, so the fixed point of a method can be solved for in double precision. The methods run
unchanged, on samples: ``A_k`` and ``m_k`` become a small regression problem per client whose mean loss is ``F_k``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged

Matrix = np.ndarray
LR, STEPS = 0.1, 5
"""The local learning rate and the local steps of every check."""


@dataclass(frozen=True)
class AffineMap:
    """The map ``w -> matrix @ w + offset``."""

    matrix: Matrix
    offset: Matrix

    def __call__(self, w: Matrix) -> Matrix:
        """The image of a point."""
        return np.asarray(self.matrix @ w + self.offset)

    def then(self, other: AffineMap) -> AffineMap:
        """First this map, then another."""
        return AffineMap(other.matrix @ self.matrix, other(self.offset))

    def times(self, number: int) -> AffineMap:
        """This map applied ``number`` times."""
        result = AffineMap(np.eye(len(self.offset)), np.zeros_like(self.offset))
        for _ in range(number):
            result = result.then(self)
        return result

    @property
    def fixed_point(self) -> Matrix:
        """The point that the map leaves unchanged."""
        return np.linalg.solve(np.eye(len(self.offset)) - self.matrix, self.offset)


def mixture(weights: Matrix, maps: list[AffineMap]) -> AffineMap:
    """The weighted mean of maps, as in the server's average."""
    return AffineMap(
        np.asarray(sum(p * one.matrix for p, one in zip(weights, maps, strict=True))),
        np.asarray(sum(p * one.offset for p, one in zip(weights, maps, strict=True))),
    )


@dataclass(frozen=True)
class Quadratics:
    """K clients with curvatures (K×d×d), optima (K×d) and numbers of samples (multiples of d)."""

    curvatures: Matrix
    optima: Matrix
    copies: tuple[int, ...]

    @staticmethod
    def random(clients: int = 5, width: int = 3, copies: tuple[int, ...] | None = None, seed: int = 5) -> Quadratics:
        """Random clients: eigenvalues between 1 and 4, in different directions; optima far apart."""
        rng = np.random.default_rng(seed)
        curvatures = []
        for _ in range(clients):
            turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
            curvatures.append(turn @ np.diag(rng.uniform(1.0, 4.0, width)) @ turn.T)
        optima = rng.normal(scale=3.0, size=(clients, width))
        return Quadratics(np.stack(curvatures), optima, copies or tuple(1 + k % 3 for k in range(clients)))

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.optima)

    @property
    def weights(self) -> Matrix:
        """Each client's share of the samples."""
        return np.asarray(self.copies) / sum(self.copies)

    def task(self) -> Task:
        """The problem as samples and a linear model with initial weights zero."""
        width = self.optima.shape[1]
        inputs, targets, sizes = [], [], []
        for curvature, optimum, copies in zip(self.curvatures, self.optima, self.copies, strict=True):
            x = np.sqrt(width) * np.linalg.cholesky(curvature).T
            inputs += [x] * copies
            targets += [x @ optimum] * copies
            sizes.append(width * copies)
        parts = Ragged.of(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
        columns = {
            "x": torch.from_numpy(np.concatenate(inputs)).float(),
            "y": torch.from_numpy(np.concatenate(targets)).float(),
        }
        federation = Federation(columns, parts, parts, Ragged.empty(self.clients), 1)
        linear = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(linear.weight)
        return Task("quadratics", federation, nn.Sequential(linear), SquaredError())

    # -- local training as maps

    def descent(self, client: int, lr: float = LR, near: float = 0.0, at: Matrix | None = None) -> AffineMap:
        """One gradient step on ``F_k(w) + near/2 ||w - at||^2``."""
        curvature, optimum = self.curvatures[client], self.optima[client]
        width = len(optimum)
        anchor = np.zeros(width) if at is None else at
        slope = curvature + near * np.eye(width)
        return AffineMap(np.eye(width) - lr * slope, lr * (curvature @ optimum + near * anchor))

    def proximal(self, client: int, near: float, steps: int = STEPS, lr: float = LR) -> AffineMap:
        """``steps`` gradient steps from w on ``F_k + near/2 ||. - w||^2``, as a map of w."""
        width = self.optima.shape[1]
        free, result = self.descent(client, lr, near), AffineMap(np.eye(width), np.zeros(width))
        for _ in range(steps):  # the anchor is the point to which the map is applied
            result = AffineMap(
                free.matrix @ result.matrix + lr * near * np.eye(width), free.matrix @ result.offset + free.offset
            )
        return result

    def local(self, steps: int = STEPS, lr: float = LR) -> list[AffineMap]:
        """The map of ``steps`` local gradient steps, for every client."""
        return [self.descent(client, lr).times(steps) for client in range(self.clients)]

    # -- solutions and rounds

    @property
    def optimum(self) -> Matrix:
        """The minimiser of the weighted mean of all clients' losses."""
        whole = np.einsum("k,kij->ij", self.weights, self.curvatures)
        return np.linalg.solve(whole, np.einsum("k,kij,kj->i", self.weights, self.curvatures, self.optima))

    def fedavg(self) -> AffineMap:
        """One round of FedAvg with all clients."""
        return mixture(self.weights, self.local())

    def fedprox(self, mu: float) -> AffineMap:
        """One round of FedProx with all clients."""
        return mixture(self.weights, [self.proximal(client, mu) for client in range(self.clients)])


def relative(got: Tensor | Matrix, wanted: Matrix) -> float:
    """The distance of two points relative to the norm of ``wanted``."""
    point = got.double().numpy() if isinstance(got, Tensor) else got
    return float(np.linalg.norm(point.reshape(-1) - wanted.reshape(-1)) / np.linalg.norm(wanted))
