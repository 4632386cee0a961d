"""An approval arrives as it was sent, and what is none counts as none."""

from __future__ import annotations

import torch

from fedloom.deploy.protocol.approval_tensor import APPROVAL_TENSOR, approval_tensors, take_approval


def test_an_approval_arrives_and_is_no_part_of_the_work():
    said = {"request": {"plan": "p", "sites": ["nörd"]}, "by": "m", "signature": "QQ=="}
    tensors = {"shared/row": torch.ones(2), **approval_tensors(said)}
    assert take_approval(tensors) == said
    assert tensors.keys() == {"shared/row"}


def test_without_an_approval_nothing_is_sent():
    assert approval_tensors({}) == {}
    assert take_approval({}) == {}


def test_what_is_no_approval_counts_as_none():
    deep = torch.frombuffer(bytearray(b"[" * 100_000), dtype=torch.uint8)
    for tensor in (torch.zeros(3), torch.zeros(0, dtype=torch.uint8), deep, *approval_tensors([1]).values()):  # type: ignore[arg-type]
        assert take_approval({APPROVAL_TENSOR: tensor}) == {}
