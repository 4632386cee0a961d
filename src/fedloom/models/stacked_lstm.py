"""An LSTM that can train alone and beside others.

One client at a time, ``nn.LSTM`` runs its fused kernel (oneDNN on the CPU). ``torch.func.vmap`` has no rule for that
kernel, so over the rows of a cohort the layer is written out as batched products. Both compute the same function;
which is faster is measured by bench/lstm.py and reported in docs/models.md.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class StackedLSTM(torch.autograd.Function):
    """One LSTM layer of B clients: x is B×T×n×i, weight B×4h×(i+h), bias B×4h; the result is B×T×n×h.

    Input and state lie side by side, so a step is one ``baddbmm``. A tanh costs three sigmoids on the CPU, so every
    gate is a sigmoid: tanh(a) = 2 sigmoid(2a) - 1, with the factors folded into the rows of the third gate.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        (b, steps, n, inputs), h = x.shape, weight.shape[1] // 4
        scale = _third_gate(weight, 2.0)
        turned = (weight * scale[:, None]).transpose(1, 2).contiguous()
        start = (bias * scale)[:, None].expand(b, n, 4 * h)
        both = x.new_empty(b, steps + 1, n, inputs + h)
        both[:, :-1, :, :inputs], both[:, 0, :, inputs:] = x, 0
        gates, cells = x.new_empty(b, steps, n, 4 * h), x.new_zeros(b, steps + 1, n, h)
        news, outs = x.new_empty(b, steps, n, h), x.new_empty(b, steps, n, h)
        for t in range(steps):
            torch.sigmoid(torch.baddbmm(start, both[:, t], turned), out=gates[:, t])
            i, f, g, o = gates[:, t].chunk(4, -1)
            new, cell, out = news[:, t], cells[:, t + 1], outs[:, t]
            torch.mul(g, 2, out=new).sub_(1)
            torch.mul(f, cells[:, t], out=cell).addcmul_(i, new)
            torch.sigmoid(cell * 2, out=out).mul_(2).sub_(1)
            torch.mul(o, out, out=both[:, t + 1, :, inputs:])
        ctx.save_for_backward(weight, both, gates, cells, news, outs)
        return both[:, 1:, :, inputs:]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight, both, gates, cells, news, outs = ctx.saved_tensors
        (b, steps, n, _), h = gates.shape, weight.shape[1] // 4
        inputs = weight.shape[2] - h
        scale = _third_gate(weight, 4.0)
        scaled, d_gates = weight * scale[:, None], torch.empty_like(gates)
        d_both, d_cell = gates.new_zeros(b, n, inputs + h), gates.new_zeros(b, n, h)
        d_x, pulled = gates.new_empty(b, steps, n, inputs), gates.new_empty(b, n, 4 * h)
        for t in reversed(range(steps)):
            i, f, _, o = gates[:, t].chunk(4, -1)
            d_state = gradients[0][:, t] + d_both[..., inputs:]
            d_cell += torch.ops.aten.tanh_backward(d_state * o, outs[:, t])
            pairs = (d_cell, news[:, t]), (d_cell, cells[:, t]), (d_cell, i), (d_state, outs[:, t])
            for (left, right), target in zip(pairs, pulled.chunk(4, -1), strict=True):
                torch.mul(left, right, out=target)
            torch.ops.aten.sigmoid_backward(pulled, gates[:, t], grad_input=d_gates[:, t])
            d_cell *= f
            torch.bmm(d_gates[:, t], scaled, out=d_both)
            d_x[:, t] = d_both[..., :inputs]
        flat = d_gates.view(b, steps * n, 4 * h)
        d_weight = torch.bmm(flat.transpose(1, 2), both[:, :-1].reshape(b, steps * n, -1))
        return d_x, d_weight * scale[:, None], flat.sum(1) * scale


class LSTMOverClients(torch.autograd.Function):
    """The bridge from ``torch.func.vmap`` to ``StackedLSTM``: vmap shows one client, the rule below has them all."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out: Tensor = StackedLSTM.apply(x[None], weight[None], bias[None])  # type: ignore[no-untyped-call]
        return out[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Nothing to keep: gradients flow through ``StackedLSTM``."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        stacks = [
            tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip(tensors, in_dims, strict=True)
        ]
        return StackedLSTM.apply(*stacks), 0  # type: ignore[no-untyped-call]


def unroll(lstm: nn.LSTM, x: Tensor) -> Tensor:
    """The states of a one-way, batch-first LSTM at every step: N × steps × inputs to N × steps × hidden."""
    weight: Any = lstm.weight_hh_l0
    if not any(torch._C._functorch.is_batchedtensor(tensor) for tensor in (x, weight)):
        steps: Tensor = lstm(x)[0]
        return steps
    x = x.transpose(0, 1)
    for layer in range(lstm.num_layers):
        w_x, w_h, b_x, b_h = (
            getattr(lstm, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        x = LSTMOverClients.apply(x, torch.cat([w_x, w_h], 1), b_x + b_h)  # type: ignore[no-untyped-call]
    return x.transpose(0, 1)


def _third_gate(weight: Tensor, factor: float) -> Tensor:
    """A vector of ones with ``factor`` in the rows of the gate that nn.LSTM calls g."""
    return weight.new_tensor([1.0, 1.0, factor, 1.0]).repeat_interleave(weight.shape[1] // 4)
