"""What is not on the CPU is refused in a sentence."""

from dataclasses import replace

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.synthetic import mlp, small_task


def test_a_model_or_data_on_another_device_are_refused():
    task = small_task()
    with pytest.raises(FedloomError, match=r"the model of task t is on the device meta .* CPU only"):
        fl.run(replace(task, model=mlp().to("meta")), "fedavg", rounds=1)
    columns = {**task.federation.columns, "x": task.federation.columns["x"].to("meta")}
    with pytest.raises(FedloomError, match=r"the data of task t is on the device meta \('x'\)"):
        fl.run(replace(task, federation=replace(task.federation, columns=columns)), "fedavg", rounds=1)
