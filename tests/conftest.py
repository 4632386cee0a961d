"""One torch thread in tests, as in runs: threads that compete for two cores only slow each other down."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
