"""Named tasks, what is done to their inputs, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.datasets.dataset import dataset
from fedloom.data.federation import Federation, Ragged
from fedloom.registry.kinds import TASKS
from fedloom.registry.validation import validate
from fedloom.tasks.builder import OF_COLUMNS, TaskSettings, task_builder
from fedloom.tasks.dataset_tasks import DatasetBuilder
from fedloom.tasks.own_data import task_of
from fedloom.tasks.settings import TaskSection
from fedloom.tasks.task import build_task
from fedloom.tasks.transforms import CropFlip, Normalise
from support.paths import DATA_FOLDER
from support.synthetic import cohort

TRAINED = ["mnist", "cifar10-cnn", "har", "shakespeare", "stackexchange"]
# Those that are trained come first, so that pytest plays both tests of a name one after the other, with one load.


def section(values: dict[str, object]) -> TaskSection:
    """The section of a config."""
    return validate(TaskSection, values, "run.toml")


BUILDERS = {name: builder for name, builder in TASKS.items() if isinstance(builder, DatasetBuilder)}
NAMED = [*TRAINED, *sorted(BUILDERS.keys() - set(TRAINED))]
CLIENTS = {"mnist": 100, "cifar10-cnn": 500}  # elsewhere five


def require_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = dataset(BUILDERS[name].data)
    if not entry.is_present(DATA_FOLDER):
        pytest.skip(f"{name}: no {entry.file} in the data folder")
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))


@pytest.fixture(scope="module", params=NAMED)
def named(request: pytest.FixtureRequest) -> tuple[str, Task]:
    """A named task on its real data."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        require_data(request.param, monkeypatch)
        return request.param, fl.task(request.param, clients=CLIENTS.get(request.param, 5))


# -- inputs


def test_the_inputs_of_digits_have_mean_zero_and_spread_one():
    task = fl.task("digits", clients=10)
    x = task.inputs(torch.arange(len(task.federation.columns["x"])))
    assert abs(float(x.mean())) < 1e-3
    assert abs(float(x.std()) - 1) < 1e-3


def test_bytes_are_taken_as_fractions_of_255():
    x = torch.tensor([[[[0, 255]], [[51, 102]]]], dtype=torch.uint8)
    made = Normalise((0.5, 0.2), (0.25, 0.1))(x)
    assert torch.allclose(made, torch.tensor([[[[-2.0, 2.0]], [[0.0, 2.0]]]]))
    assert torch.allclose(Normalise((0.5, 0.2), (0.25, 0.1))(x.float() / 255), made, atol=1e-6)


def test_own_data_are_normalised_by_the_training_parts_alone():
    x = torch.tensor([[0.0, 7.0], [2.0, 7.0], [1000.0, 7.0]])
    train, test = Ragged.of([[0], [1]]), Ragged.of([[2], []])
    own = Federation({"x": x, "y": torch.tensor([0, 1, 1])}, train, test, Ragged.empty(2), 2)
    task = task_of(own)
    assert task.inputs(torch.arange(3)).tolist() == [[-1.0, 0.0], [1.0, 0.0], [999.0, 0.0]]
    assert task_of(own, normalise=False).inputs(torch.arange(3)).equal(x)


# -- augmentation


def test_every_augmented_image_is_a_window_of_the_padded_one_perhaps_mirrored():
    images, pad = torch.randn(1000, 2, 3, 4, generator=torch.Generator().manual_seed(0)), 2
    made = CropFlip(pad)(images, torch.Generator().manual_seed(5))
    assert made.shape == images.shape
    seen = set()
    for image, window in zip(images, made, strict=True):
        padded = F.pad(image, (pad,) * 4)
        matches = [
            (top, left, mirror)
            for top, left, mirror in itertools.product(range(5), range(5), (False, True))
            if torch.equal(padded[:, top : top + 3, left : left + 4].flip(-1) if mirror
                           else padded[:, top : top + 3, left : left + 4], window)
        ]  # fmt: skip
        assert matches
        seen.update(matches)
    assert len(seen) == 5 * 5 * 2  # every shift and both directions turn up


def test_augmentation_depends_on_its_generator_alone():
    images, augment = torch.randn(20, 1, 8, 8), CropFlip()
    first, again, other = (augment(images, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_augmentation_is_used_in_training_and_left_out_of_scores():
    plain, augmented = (fl.task("digits", clients=3, augment=augment, seed=1) for augment in (False, True))
    one, two = (fl.run(task, "fedavg", rounds=1).records for task in (plain, augmented))
    assert one[0] == two[0]
    assert one[1]["metrics"] != two[1]["metrics"]


# -- names


def test_names_of_tasks_are_read_in_any_case():
    assert task_builder("MNIST_Writers") is TASKS["mnist-writers"]
    assert fl.task("Digits", clients=2).federation.clients == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "digit"}, "unknown task 'digit'. Did you mean 'digits'?"),
        ({"name": "digits", "alpha": 0.1, "partition": "iid"}, "alpha=0.1 and partition=iid both say how to divide"),
        ({"name": "digits", "clients": 5000}, "5000"),
        ({"name": "digits", "clients": 5, "model": "lenet9"}, "lenet9"),
    ],
)
def test_what_cannot_be_is_one_sentence(settings, message):
    with pytest.raises(FedloomError) as caught:
        fl.task(**settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_your_own_table_is_a_task_like_the_others_and_is_built_again_from_its_settings(tmp_path):
    rows = [f"{n % 7},{n % 5},{'yes' if n % 2 else 'no'},{n % 3}" for n in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["age,size,label,client", *rows]))
    task = fl.task("own", path=str(tmp_path / "a.csv"), seed=3)
    again = build_task(TaskSettings(**task.made_from))
    assert again.federation.clients == 3
    assert torch.equal(task.initial_row(), again.initial_row())
    assert task.federation.train.order.equal(again.federation.train.order)


def test_a_builder_writes_out_its_defaults():
    complete = task_builder("digits").complete(TaskSettings("digits"))
    assert (complete.model, complete.partition["name"]) == ("mlp", "dirichlet")
    assert task_builder("own").complete(TaskSettings("own", path="a.csv")).path.startswith("/")


@pytest.mark.parametrize("setting", ["partition", "augment", *OF_COLUMNS])
def test_a_setting_that_a_task_does_not_use_is_refused(setting):
    given = {"partition": "iid", "stream": {"tasks": 2, "rounds": 1}, "communal": 0.5, "server_set": 0.5}
    with pytest.raises(FedloomError, match=f"task flows: it divides its data by organisation; leave out {setting}"):
        fl.task("flows", **{setting: given.get(setting, 1)})


@pytest.mark.slow
def test_texts_are_not_augmented(monkeypatch):
    require_data("shakespeare", monkeypatch)
    with pytest.raises(FedloomError, match="needs images, but the samples of shakespeare are not images"):
        fl.task("shakespeare", clients=3, augment=True)


def test_missing_data_are_named_with_the_way_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path))
    with pytest.raises(FedloomError, match=r"data of mnist are missing.*fedloom data get mnist"):
        fl.task("mnist")
    assert "data missing" in TASKS["mnist"].describe()
    assert "data missing" not in TASKS["digits"].describe()


# -- every named task


@pytest.mark.slow
def test_a_named_task_gives_its_model_inputs_that_it_can_read(named):
    name, task = named
    positions = task.federation.train[0][:2]
    task.model.eval()
    with torch.no_grad():
        losses, counts = task.objective.losses(task.model(task.inputs(positions)), task.targets(positions))
    guessing = torch.log(torch.tensor(float(task.federation.classes)))
    assert 0.3 * guessing < losses.sum() / counts.sum() < 3 * guessing  # an untrained model knows nothing
    assert task.federation.clients == CLIENTS.get(name, 5)
    assert len(task.federation.global_test)


@pytest.mark.slow
@pytest.mark.parametrize("named", TRAINED, indirect=True)
def test_five_steps_on_a_named_task_lower_the_loss_of_the_client_that_makes_them(named):
    name, task = named
    smallest = int(task.federation.train.sizes.argmin())
    some = cohort(task, "loop", replace(TASKS[name].local, steps=5), [smallest])
    received = some.spread(task.initial_row())
    trained = some.train(received)
    assert float(some.evaluate(trained, "train").mean_loss) < float(some.evaluate(received, "train").mean_loss)


@pytest.mark.parametrize("key", ["communal", "server_set"])
def test_a_number_is_a_share_in_python_and_in_a_config(key):
    short, long = (section({key: value}) for value in (0.1, {"share": 0.1}))
    assert getattr(short, key) == getattr(long, key) != getattr(TaskSection(), key)
    for part in ("communal", "server"):
        both = [getattr(fl.task("digits", clients=3, **{key: v}).federation, part) for v in (0.1, {"share": 0.1})]
        assert torch.equal(*both)


@pytest.mark.parametrize("value", [5, "x"])
def test_a_stream_that_is_no_table_says_what_to_give_in_python_and_in_a_config(value):
    for build in (lambda: fl.task("digits", stream=value), lambda: section({"stream": value})):
        with pytest.raises(FedloomError, match=f"task.stream={value!r}: give a table of tasks and rounds"):
            build()


@pytest.mark.parametrize("key", ["communal", "server_set"])
@pytest.mark.parametrize("value", [True, "x"])
def test_samples_for_others_are_a_share_or_a_table_in_python_and_in_a_config(key, value):
    for build in (lambda: fl.task("digits", **{key: value}), lambda: section({key: value})):
        with pytest.raises(FedloomError, match=f"^task.{key}={value!r}: give a share between 0 and 1, or a table, for"):
            build()


def test_a_stream_without_rounds_says_that_they_are_missing():
    with pytest.raises(FedloomError, match=r"^stream\.rounds is missing: add it\.$"):
        fl.task("digits", stream={"tasks": 5})
    with pytest.raises(FedloomError, match=r"^task\.stream\.rounds is missing in the configuration: add it\.$"):
        resolve({"task": {"stream": {"tasks": 5}}}, where="the configuration")
