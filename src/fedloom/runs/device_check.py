"""This version computes on the CPU: a model or data on another device are refused before anything is computed."""

from __future__ import annotations

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task


def check_devices(task: Task) -> None:
    """Refuse a task whose model or data are not on the CPU.

    Args:
        task: The task of the run.
    """
    model = {**dict(task.model.named_parameters()), **dict(task.model.named_buffers())}
    for what, tensors in (("model", model), ("data", task.federation.columns)):
        for name, tensor in tensors.items():
            if tensor.device.type != "cpu":
                raise FedloomError(
                    f"the {what} of task {task.name} is on the device {tensor.device} ('{name}'), but this version of "
                    "Fedloom computes on the CPU only: move it with .cpu()."
                )
