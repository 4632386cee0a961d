"""Encoder averaging: a method without a loss is refused."""

from __future__ import annotations

import pytest

from fedloom.core.local_work import LocalWork
from fedloom.methods.selfsupervised.encoder_averaging import EncoderAveraging
from support.small_images import adapted
from support.synthetic import cohort


def test_a_method_says_what_its_clients_minimise():
    method = EncoderAveraging(projection=4)
    task = adapted(method)
    message = method.broadcast(method.start(task), [0, 1])
    with pytest.raises(TypeError, match="EncoderAveraging has no local_loss"):
        method.client_update(cohort(task, "loop", LocalWork()), message)
