"""What needs single replies is refused together with a step that hides them, before any work."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.plain_sums import PlainSum
from support.synthetic import small_task


@dataclass(frozen=True)
class Curious(fl.Adversary):
    def look_at_replies(self, wave, replies):
        return {"row": float(replies["row"].sum())}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"channel": [PlainSum(), fl.TopK()]}, "make it the last step of the channel"),
        ({"channel": [PlainSum(), PlainSum()]}, "make it the last step of the channel"),
        ({"channel": [fl.TopK(), PlainSum()]}, "those of topk are coded"),
        ({"channel": [PlainSum()], "aggregation": "median"}, "hides single updates, and median needs them"),
        ({"channel": [PlainSum()], "weight_by": "steps"}, "set weight_by to samples or uniform"),
        ({"channel": [PlainSum()], "adversary": Curious()}, "the adversary curious looks at them"),
        ({"channel": [PlainSum()], "selection": fl.Poisson(0.5)}, "draws fewer of 4 with a probability of 0.31"),
        ({"channel": [PlainSum()], "adversary": "alie"}, "the adversary alie looks at them"),
        ({"channel": [PlainSum()], "selection": fl.Random(number=1)}, "a sum of 1 client hides nothing"),
    ],
)
def test_it_is_refused(settings, reason):
    with pytest.raises(FedloomError, match=reason):
        fl.run(small_task(), "fedavg", rounds=1, **settings)
