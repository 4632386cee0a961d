"""The kind of a target is read from its column."""

import pytest
import torch

from fedloom.core.targets import target_kind


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (torch.zeros(3, dtype=torch.int64), "classes"),
        (torch.zeros(3), "number"),
        (torch.zeros(3, 2, dtype=torch.uint8), "labels"),
        (torch.zeros(3, 2, dtype=torch.int64), "tokens"),
        (torch.zeros(3, 2, dtype=torch.int16), "tokens"),
    ],
)
def test_the_column_shows_it(y, kind):
    assert target_kind(y) == kind
