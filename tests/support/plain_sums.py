"""A sum that hides nothing, of rows in double precision: it shows what the seam does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.secure.sum_step import ROWS, Decoded, ServerHalf, ServerKeys, SumKeys, SumPhase, SumSession, SumStep, Total


@dataclass(frozen=True)
class PlainSum(SumStep):
    """Add rows as they are, in two phases: the second one tells clients who is in the sum."""

    def code(self, values: Tensor, weights: Tensor, session: SumSession, random: Sequence[torch.Generator]) -> Tensor:
        return torch.cat([weights[:, None].double(), values], dim=1)

    def decode_total(self, total: Total, session: SumSession) -> Decoded:
        return Decoded(total.row[1:], int(total.row[0]), 0)

    def server_half(self, session: SumSession, keys: ServerKeys) -> ServerHalf:
        answers = yield SumPhase(ROWS, {client: {"hello": torch.zeros(2)} for client in session.ids})
        ids = tuple(sorted(answers))
        told = yield SumPhase("tell", {client: {"ids": torch.tensor(ids)} for client in ids})
        assert all(torch.equal(answer["ids"], torch.tensor(ids)) for answer in told.values())
        return Total(torch.stack([answers[client]["row"] for client in ids]).sum(0), ids)

    def client_half(self, session: SumSession, client: int, keys: SumKeys) -> PlainHalf:
        return PlainHalf()


class PlainHalf:
    """Shows its row."""

    opening = None

    def answer(self, phase: str, got: Mapping[str, Tensor], row: Tensor | None) -> dict[str, Tensor]:
        return dict(got) if row is None else {"row": row}
