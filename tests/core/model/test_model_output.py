"""A model that returns several outputs trains as the same model that returns the named one alone."""

from collections import namedtuple
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.config.trusted_code import TrustedCode
from fedloom.core.errors import FedloomError
from fedloom.core.model.model_output import chosen_output
from fedloom.deploy.saved_model import model_of_run
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import small_task

Pair = namedtuple("Pair", ["features", "logits"])


@dataclass
class Outputs:
    features: torch.Tensor
    logits: torch.Tensor


class Net(nn.Module):
    """A network whose head is the second layer."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.body, self.head = nn.Linear(20, 8), nn.Linear(8, 5)

    def features(self, x):
        return torch.relu(self.body(x))

    def forward(self, x):
        return self.head(self.features(x))


class Several(Net):
    """The same with more than one output."""

    def __init__(self, form, output):
        super().__init__()
        self.form, self.output = form, output

    def forward(self, x):
        features = self.features(x)
        logits = self.head(features)
        if self.form is dict:
            return {"features": features, "logits": logits}
        return (features, logits) if self.form is tuple else self.form(features, logits)


CASES = [(dict, "logits"), (tuple, 1), (tuple, -1), (Pair, "logits"), (Pair, 1), (Outputs, "logits"), (Outputs, 1)]


@pytest.mark.parametrize(("form", "output"), CASES)
def test_the_declared_output_is_chosen(form, output):
    x = torch.randn(3, 20)
    model = Several(form, output)
    assert torch.equal(chosen_output(model, model(x)), Net()(x))


def test_one_tensor_needs_no_declaration_and_is_not_taken_apart():
    model, x = Net(), torch.randn(3, 20)
    model.output = 4
    assert torch.equal(chosen_output(model, model(x)), Net()(x))


@pytest.mark.parametrize(("form", "output"), [(dict, "logit"), (tuple, 2), (tuple, "logits"), (Pair, "x"), (dict, 0)])
def test_an_output_that_is_not_there_is_refused_with_those_that_are(form, output):
    shown = "0, 1" if form is tuple else "features, logits"
    with pytest.raises(FedloomError, match=rf"unknown output of Several: '{output}'.* Known: {shown}\."):
        fl.run(replace(small_task(), model=Several(form, output)), "fedavg", rounds=1)


@pytest.mark.parametrize(("method", "execution"), [("fedavg", "loop"), ("scaffold", "vectorised"), ("moon", "loop")])
def test_it_trains_to_the_same_bytes_as_the_model_with_one_output(method, execution, tmp_path):
    for name, model in (("one", Net()), ("several", Several(dict, "logits"))):
        task = replace(small_task(), model=model)
        fl.run(task, method, rounds=2, execution=execution, out=tmp_path / name)
    one, several = (tmp_path / name / "metrics.jsonl" for name in ("one", "several"))
    assert one.read_bytes() == several.read_bytes()


def test_it_is_traced_like_the_model_with_one_output():
    traced = LocalTrainer(replace(small_task(), model=Several(dict, "logits")), "vectorised")
    assert traced.graph is not None
    assert len(traced.graph.training) == 3


NET = """
import torch
from torch import nn

class Net(nn.Module):
    output = "logits"

    def __init__(self, inputs, classes):
        super().__init__()
        self.body, self.head = nn.Linear(inputs, 8), nn.Linear(8, classes)

    def forward(self, x):
        features = torch.relu(self.body(x.flatten(1)))
        return {"features": features, "logits": self.head(features)}
"""


def test_a_class_in_a_file_keeps_its_output_over_resume_and_prediction(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    settings = {"model": f"{tmp_path / 'net.py'}:Net", "clients": 3}
    whole = fl.run(fl.task("digits", **settings), "fedavg", rounds=3, out=tmp_path / "whole")
    fl.run(fl.task("digits", **settings), "fedavg", rounds=2, out=tmp_path / "part")
    again = fl.resume(tmp_path / "part", rounds=3)
    assert again.records[-1]["metrics"] == whole.records[-1]["metrics"]
    model = model_of_run(tmp_path / "part", trusted=TrustedCode(settings["model"]))
    samples = fl.task("digits", **settings).federation.columns["x"][:4]
    assert torch.allclose(model.predict(samples).sum(1), torch.ones(4))


class WithAttributes:
    """What Hugging Face's models return looks like this: fields, most of them None."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.mark.parametrize("form", [dict, WithAttributes])
def test_the_only_tensor_beside_what_is_none_needs_no_declaration(form):
    x = torch.ones(2, 3)
    assert chosen_output(nn.Identity(), form(loss=None, logits=x)) is x
    with pytest.raises(FedloomError, match=r"of loss, logits: declare which"):
        chosen_output(nn.Identity(), form(loss=x.sum(), logits=x))
    model = nn.Identity()
    model.output = "logits"
    assert chosen_output(model, form(loss=x.sum(), logits=x)) is x
