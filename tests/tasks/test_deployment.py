"""A site's own data: the schema's columns, classes and shapes hold, and what does not fit is said in one sentence."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedloom.config.resolve import method_from_config
from fedloom.core.message import Message
from fedloom.data.federation import Federation, Ragged
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.settings import SiteData, SiteSettings
from fedloom.deploy.site.process import SiteProcess
from fedloom.deploy.site.state import SiteState
from fedloom.rounds.jobs import Job
from fedloom.runs.prepare import prepare
from support import phones
from support.local_transport import NAMES, Local, Plan, quick, simulate
from support.media_files import write_pitches, write_stripes
from support.site_tasks import blueprint_of, check_refused, south, write_image
from support.small_tables import write_rows

HEADER = ["age", "weight", "kind"]
ROWS = [[str(20 + row), str(60 + 2 * row), ("cat", "dog", "fox")[row % 3]] for row in range(30)]


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """The task of a table with two features and three named classes."""
    path = write_rows(tmp_path_factory.mktemp("operator") / "pets.csv", HEADER, ROWS)
    task = {"name": "own", "path": str(path), "target": "kind", "model": "logistic", "valid_share": 0.25}
    return blueprint_of(task)


@pytest.fixture(scope="module")
def digits():
    return blueprint_of({"name": "digits", "model": "logistic"})


def samples(task, client=1):
    """A site's own samples, sorted: inputs and class numbers."""
    held = task.federation
    mine = torch.cat([held.train[client], held.valid[client], held.test[client]])
    found = zip(held.columns["x"][mine].tolist(), held.columns["y"][mine].tolist(), strict=True)
    return sorted(found)


# -- tables


def test_columns_are_matched_by_name_and_classes_by_the_schemas_numbers(pets, tmp_path):
    """The site has no cats, so its own numbering would begin with dogs; its columns stand in another order."""
    rows = [["dog", "71", "31"], ["fox", "72", "32"], ["dog", "73", "33"], ["fox", "74", "34"]]
    write_rows(tmp_path / "mine.csv", ["kind", "weight", "age"], rows)
    task = pets.site_task(south("mine.csv"), tmp_path)
    assert pets.schema.features == ("age", "weight")
    assert samples(task) == [([31, 71], 1), ([32, 72], 2), ([33, 73], 1), ([34, 74], 2)]
    assert task.federation.classes == 3
    assert task.federation.class_names == ("cat", "dog", "fox")


def test_a_site_is_normalised_by_the_schema_and_not_by_its_own_data(pets, tmp_path):
    write_rows(tmp_path / "mine.csv", HEADER, [["1000", "-5", "cat"], ["1000", "-5", "cat"]])
    task = pets.site_task(south("mine.csv"), tmp_path)
    mean, std = torch.tensor(pets.schema.mean), torch.tensor(pets.schema.std)
    expected = (torch.tensor([1000.0, -5.0]) - mean) / std
    assert torch.allclose(task.inputs(task.federation.train[1])[0], expected)


def test_the_split_follows_the_runs_shares_and_is_the_same_after_a_restart(pets, tmp_path):
    write_rows(tmp_path / "mine.csv", HEADER, ROWS[:20])
    first, again = (pets.site_task(south("mine.csv"), tmp_path) for _ in range(2))
    assert ClientSizes.of(first.federation, 1) == ClientSizes(train=11, valid=5, test=4, points=20)
    assert len(samples(first)) == 20
    for part in ("train", "valid", "test"):
        assert torch.equal(getattr(first.federation, part)[1], getattr(again.federation, part)[1])
    other = pets.site_task(south("mine.csv", client=0), tmp_path)
    assert not torch.equal(first.federation.train[1], other.federation.train[0])


def test_a_site_keeps_groups_together(tmp_path):
    header, rows = [*HEADER, "owner"], [[*row, f"o{number // 3}"] for number, row in enumerate(ROWS)]
    path = write_rows(tmp_path / "pets.csv", header, rows)
    task = {"name": "own", "path": str(path), "target": "kind", "model": "logistic", "group_column": "owner"}
    plan = blueprint_of(task)
    assert plan.schema.features == ("age", "weight")
    held = plan.site_task(south("pets.csv"), tmp_path).federation
    owners = [{int(row) // 3 for row in part[1]} for part in (held.train, held.test)]
    assert not owners[0] & owners[1]
    assert len(owners[0] | owners[1]) == 10


@pytest.mark.parametrize("ending", ["tsv", "parquet", "npz"])
def test_the_same_samples_in_another_format_are_the_same_task(pets, tmp_path, ending):
    write_rows(tmp_path / "mine.csv", HEADER, ROWS)
    path, x, y = tmp_path / f"mine.{ending}", [[float(a), float(b)] for a, b, _ in ROWS], [row[2] for row in ROWS]
    if ending == "tsv":
        write_rows(path, HEADER, ROWS)
    elif ending == "npz":
        np.savez(path, x=np.array(x), y=np.array(y))
    else:
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: parquet is not tried")
        from pyarrow import parquet

        ages, weights = zip(*x, strict=True)
        parquet.write_table(arrow.table({"weight": weights, "kind": y, "age": [int(age) for age in ages]}), path)
    expected = pets.site_task(south("mine.csv"), tmp_path).federation
    found = pets.site_task(south(path.name), tmp_path).federation
    for part in ("train", "valid", "test"):
        assert torch.equal(getattr(expected, part)[1], getattr(found, part)[1])
    assert all(torch.equal(expected.columns[name], found.columns[name]) for name in ("x", "y"))


def test_columns_that_a_site_ignores_may_hold_anything(pets, tmp_path):
    write_rows(tmp_path / "mine.csv", ["owner", *HEADER], [[f"owner {n}", *row] for n, row in enumerate(ROWS)])
    assert len(samples(pets.site_task(south("mine.csv", ignore=["owner"]), tmp_path))) == 30


TABLES = {
    "missing": (["age", "kind"], [["1", "cat"]] * 3, "mine.csv has no feature column 'weight'"),
    "extra": (["age", "weight", "tail", "kind"], [["1", "2", "3", "cat"]] * 3, "mine.csv has the column 'tail'"),
    "target": (["age", "weight"], [["1", "2"]] * 3, "mine.csv has no column 'kind'"),
    "words": (HEADER, [["1", "2", "cat"], ["old", "2", "cat"]], "column 'age', row 2: 'old' is not a number"),
    "empty": (HEADER, [["1", "2", "cat"], ["1", "", "cat"]], "column 'weight', row 2: the cell is empty"),
    "class": (
        HEADER,
        [*ROWS[:4], ["1", "2", "bird"]],
        "mine.csv: the label 'bird' of row 5 is not a class of the task",
    ),
    "number among names": (HEADER, [*ROWS[:4], ["1", "2", "0"]], "the label '0' of row 5 is not a class of the task"),
    "class number": (HEADER, [["1", "2", "0"], ["1", "2", "3"]], "the label 3 of row 2 is out of range"),
    "nan": (HEADER, [*ROWS[:2], ["1", "nan", "cat"]], "column 'weight', row 3: the cell is empty"),
    "infinite": (HEADER, [["inf", "1", "cat"], *ROWS[:2]], "column 'age', row 1 is infinite"),
    "one": (HEADER, ROWS[:1], "mine.csv has 1 sample: give at least two"),
    "none": (HEADER, [], "mine.csv has a header and no rows"),
    "ragged": (HEADER, [*ROWS[:2], ["1"]], "mine.csv, row 3: 1 cells where the header has 3"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_bad_table_is_refused_in_one_sentence_that_names_the_site_and_the_place(case, pets, tmp_path):
    header, rows, said = TABLES[case]
    write_rows(tmp_path / "mine.csv", header, rows)
    check_refused(pets, south("mine.csv"), tmp_path, said)


def test_a_site_without_data_is_told_where_to_name_them(pets, tmp_path):
    check_refused(pets, SiteSettings(name="south", client=1), tmp_path, "its site.toml names no data")
    check_refused(pets, south("nowhere.csv"), tmp_path, f"{tmp_path / 'nowhere.csv'} does not exist")
    (tmp_path / "mine.docx").touch()
    check_refused(pets, south("mine.docx"), tmp_path, "mine.docx: '.docx' files are not supported")
    (tmp_path / "mine.npz").write_bytes(b"PK\x03\x04 and no more")
    check_refused(pets, south("mine.npz"), tmp_path, "mine.npz is not a readable .npz file")


# -- arrays


def arrays(**changes):
    random = np.random.default_rng(0)
    return {"x": random.random((12, 1, 8, 8), dtype=np.float32), "y": np.arange(12) % 10, **changes}


def labels_as_objects():
    y = np.empty(12, dtype=object)
    y[:] = "3"
    return y


ARRAYS = {
    "shape": ({"x": np.zeros((12, 8, 8))}, "an input has shape (8, 8), but the task needs (1, 8, 8)"),
    "bytes": ({"x": np.zeros((12, 1, 8, 8), np.uint8)}, "the inputs are uint8, but the task needs float32"),
    "words": ({"x": np.full((12, 1, 8, 8), "a")}, "not numbers"),
    "lengths": ({"y": np.arange(5)}, "12 inputs and labels of shape (5,)"),
    "columns": ({"y": np.zeros((12, 2), np.int64)}, "y has shape (12, 2), but the task needs one label per sample"),
    "class": ({"y": np.arange(12)}, "the label 10 of row 11 is out of range"),
    "fraction": ({"y": np.arange(12) / 2}, "the label of row 2 is 0.5"),
    "nan": ({"x": np.full((12, 1, 8, 8), np.nan)}, "column 0, 0, 0, row 1 is not a number"),
    "objects": ({"y": labels_as_objects()}, "holds pickled Python objects"),
    "none": ({"x": np.zeros((0, 1, 8, 8)), "y": np.zeros(0, np.int64)}, "mine.npz has no samples"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_bad_arrays_are_refused(case, digits, tmp_path):
    changes, said = ARRAYS[case]
    np.savez(tmp_path / "mine.npz", **arrays(**changes))
    check_refused(digits, south("mine.npz"), tmp_path, said)


def test_arrays_lack_a_name_and_are_refused(digits, tmp_path):
    np.savez(tmp_path / "mine.npz", x=arrays()["x"])
    check_refused(digits, south("mine.npz"), tmp_path, "has no array 'y'")


def test_the_others_at_a_site_are_placeholders_and_communal_samples_are_everyones(tmp_path):
    blueprint = blueprint_of({"name": "digits", "model": "logistic", "communal_per_class": 2})
    np.savez(tmp_path / "mine.npz", **arrays())
    federation = blueprint.site_task(south("mine.npz"), tmp_path).federation
    assert federation.train.sizes.tolist() == [1, 10]
    assert federation.names == ("north", "south")
    assert not len(federation.global_test)
    assert torch.equal(federation.columns["x"][federation.communal], blueprint.communal["x"])
    assert torch.equal(federation.columns["y"][federation.communal], blueprint.communal["y"])


def test_a_site_leaves_out_what_is_communal_and_labels_that_it_shall_not_have(tmp_path):
    blueprint = blueprint_of({"name": "digits", "model": "logistic", "communal": 0.2, "label_share": 0.5})
    shown = {name: column[:3].numpy() for name, column in blueprint.communal.items()}
    own = arrays()
    both = {name: np.concatenate([own[name], shown[name]]) for name in ("x", "y")}
    np.savez(tmp_path / "mine.npz", **both)
    federation = blueprint.site_task(south("mine.npz"), tmp_path).federation
    parts = torch.cat([federation.train[1], federation.valid[1], federation.test[1]])
    assert len(parts) == len(own["y"])
    assert not torch.isin(parts, federation.communal).any()
    assert int((federation.columns["y"][federation.train[1]] >= 0).sum()) == len(federation.train[1]) // 2
    assert (federation.columns["y"][federation.test[1]] >= 0).all()


def test_an_evaluator_tests_on_everything_it_has(digits, tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays())
    runtime = digits.runtime(digits.site_task(south("mine.npz", client=2), tmp_path))
    message = Message({"row": digits.initial})
    whole, alone = (runtime.do(job, message, {}) for job in (Job("global", 1, [0, 12], []), Job("score", 1, [2], [0])))
    assert float(whole["counts"]) == float(alone["counts"]) == 12
    assert float(whole["score"]) == float(alone["score"])


def test_settings_of_a_simulation_are_refused_with_own_data(tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays())
    everywhere = blueprint_of({"name": "digits", "model": "logistic"}, clients_on_global=True)
    check_refused(everywhere, south("mine.npz"), tmp_path, "clients_on_global = true")
    withheld = blueprint_of({"name": "digits", "model": "logistic", "withhold": {"label": 3, "clients": 1}})
    check_refused(withheld, south("mine.npz"), tmp_path, "task.withhold")


# -- folders of images


@pytest.fixture
def album(tmp_path):
    """Four images of two digits, as bytes."""
    random = np.random.default_rng(1)
    found = {(label, number): random.integers(0, 256, (8, 8), np.uint8) for label in (3, 7) for number in range(2)}
    for (label, number), pixels in found.items():
        write_image(tmp_path / "album" / str(label) / f"{number}.png", pixels)
    return found


def test_a_folder_of_images_gives_its_pixels_and_the_schemas_classes(digits, tmp_path, album):
    (tmp_path / "album" / ".DS_Store").touch()
    task = digits.site_task(south("album"), tmp_path)
    expected = sorted(((pixels / np.float32(255))[None].tolist(), label) for (label, _), pixels in album.items())
    assert samples(task) == expected


GREY = np.zeros((8, 8), np.uint8)
PICTURES = {
    "class": ("bird/0.png", GREY, "the sub-folder 'bird' of album is not a class of the task (0, 1, 2"),
    "bits": ("3/9.tif", np.zeros((8, 8), np.int32), "album/3/9.tif has 32 bits per pixel"),
    "ending": ("3/9.ppm", GREY, "album/3/9.ppm is no image of a known format (PNG, JPEG"),
}


@pytest.mark.parametrize("case", PICTURES)
@pytest.mark.usefixtures("album")
def test_a_bad_image_is_refused(case, digits, tmp_path):
    name, pixels, said = PICTURES[case]
    write_image(tmp_path / "album" / name, pixels)
    check_refused(digits, south("album"), tmp_path, said)


@pytest.mark.usefixtures("album")
def test_an_unreadable_image_is_named(digits, tmp_path):
    whole = (tmp_path / "album" / "7" / "1.png").read_bytes()
    for content in (b"", b"no image", whole[:60], whole[:40] + b"????" + whole[44:]):
        (tmp_path / "album" / "7" / "1.png").write_bytes(content)
        said = "is not a readable image" if content else "is empty"
        check_refused(digits, south("album"), tmp_path, f"album/7/1.png {said}")


@pytest.mark.usefixtures("album")
def test_folders_without_images_and_tables_for_images_are_refused(digits, pets, tmp_path):
    (tmp_path / "empty").mkdir()
    check_refused(digits, south("empty"), tmp_path, "empty has no sub-folders")
    (tmp_path / "empty" / "3").mkdir()
    check_refused(digits, south("empty"), tmp_path, "empty/3 has no images")
    check_refused(pets, south("album"), tmp_path, "album is not a table, but the task's data are one")
    write_rows(tmp_path / "mine.csv", HEADER, ROWS)
    check_refused(
        digits, south("mine.csv"), tmp_path, "mine.csv has no column whose first cell is the path of an image"
    )


@pytest.mark.usefixtures("album")
def test_images_of_another_size_and_mode_become_those_of_the_task(digits, tmp_path):
    write_image(tmp_path / "album" / "3" / "large.png", np.full((40, 60, 3), 255, np.uint8))
    write_image(tmp_path / "album" / "3" / "deep.png", np.full((8, 8), 65535, np.uint16))
    task = digits.site_task(south("album"), tmp_path)
    white = [[[1.0] * 8] * 8]
    assert [label for pixels, label in samples(task) if pixels == white] == [3, 3]


# -- several input columns


@pytest.fixture(scope="module")
def phone_plan(tmp_path_factory):
    """The task of an NPZ file with an array per sensor, under a network with a branch per column."""
    path = phones.write(tmp_path_factory.mktemp("operator") / "phones.npz")
    task = {"name": "own", "path": str(path), "clients": 3, "partition": "iid", "model": "late-fusion"}
    local = {"epochs": 1, "batch_size": 16, "lr": 0.1}
    return lambda spec, **more: Plan.of(spec, task={**task, **more}, local=local)


@pytest.mark.usefixtures(quick.__name__)
@pytest.mark.parametrize(
    ("method", "model"), [("fedavg", "late-fusion"), ("scaffold", "mlp"), ("fedrep", "late-fusion")]
)
def test_sites_with_columns_give_the_simulators_bytes(phone_plan, tmp_path, method, model):
    plan = phone_plan(method, model=model, communal_per_class=2)
    played, simulated = Local(plan, tmp_path).play(), simulate(plan)
    assert torch.equal(played.row, simulated.row)
    assert not torch.equal(played.row, plan.blueprint.initial)


def test_a_sites_own_columns_are_read_by_name_and_normalised_by_the_schema(phone_plan, tmp_path):
    blueprint = phone_plan("fedavg").blueprint
    x, y, _ = phones.arrays(30)
    np.savez(tmp_path / "mine.npz", gyroscope=100 + x["gyroscope"], y=y, accelerometer=x["accelerometer"])
    task = blueprint.site_task(south("mine.npz"), tmp_path)
    assert list(task.federation.columns) == ["x/accelerometer", "x/gyroscope", "y"]
    found = task.inputs(torch.arange(30))
    for column, raw in zip(blueprint.schema.inputs, (x["accelerometer"], 100 + x["gyroscope"]), strict=True):
        expected = (torch.from_numpy(raw) - torch.tensor(column.mean)) / torch.tensor(column.std)
        assert torch.allclose(found[column.name], expected, atol=1e-4)
    answer = blueprint.runtime(task).do(Job("score", 1, [1], [0]), Message({"row": blueprint.initial}), {})
    assert float(answer["counts"]) == len(task.federation.test[1])


@pytest.mark.usefixtures(quick.__name__)
def test_sites_with_files_of_columns_train_as_one_simulation_of_all_files_does(phone_plan, tmp_path):
    plan = phone_plan("scaffold")
    deployed, tasks, blueprint = Local(plan, tmp_path), [], plan.blueprint
    for client, name in enumerate(NAMES):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        phones.write(folder / "mine.npz", 40 + 10 * client)
        settings = SiteSettings(name=name, client=client, data=SiteData(path="mine.npz"))
        tasks.append(blueprint.site_task(settings, folder))
        runtime = blueprint.runtime(tasks[-1])
        deployed.sites[client] = SiteProcess(folder, settings, blueprint, runtime, SiteState(folder / "kept"))
    held = [task.federation for task in tasks]
    starts = np.cumsum([0, *(len(one.columns["y"]) for one in held)])[:3].tolist()
    parts = {
        part: Ragged.of([getattr(one, part)[k] + starts[k] for k, one in enumerate(held)])
        for part in ("train", "valid", "test")
    }
    columns = {name: torch.cat([one.columns[name] for one in held]) for name in held[0].columns}
    whole = replace(tasks[0], federation=Federation(columns, **parts, classes=3))
    prepared = prepare(whole, method_from_config(blueprint.config), blueprint.config)
    played = deployed.play().row
    assert torch.equal(played, simulate(replace(plan, prepared=prepared)).row)
    assert not torch.equal(played, blueprint.initial)


def test_a_plain_schema_is_written_as_before(pets, phone_plan):
    assert "inputs" not in pets.schema.model_dump()
    assert [one["name"] for one in phone_plan("fedavg").blueprint.schema.model_dump()["inputs"]] == list(phones.COLUMNS)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gyroscope": None}, "has no array 'gyroscope'"),
        ({"gyroscope": np.zeros((9, 3))}, "differ in length (accelerometer has 12, gyroscope has 9)"),
        ({"gyroscope": np.zeros((12, 5))}, "column gyroscope: an input has shape (5,), but the task needs (3,)"),
        ({"gyroscope": np.full((12, 3), np.nan)}, "gyroscope: column 0, row 1 is not a number"),
        ({"y": np.full(12, 7)}, "7"),
    ],
)
def test_columns_that_do_not_conform_are_refused(phone_plan, tmp_path, change, reason):
    x, y, _ = phones.arrays(12)
    arrays = {name: array for name, array in {**x, "y": y, **change}.items() if array is not None}
    np.savez(tmp_path / "mine.npz", **arrays)
    check_refused(phone_plan("fedavg").blueprint, south("mine.npz"), tmp_path, reason)


def test_a_table_is_refused_where_the_task_has_columns(phone_plan, tmp_path):
    write_rows(tmp_path / "mine.csv", HEADER, ROWS)
    reason = "mine.csv: the task has the input columns accelerometer, gyroscope: give an .npz file"
    check_refused(phone_plan("fedavg").blueprint, south("mine.csv"), tmp_path, reason)


# -- files


@pytest.mark.usefixtures(quick.__name__)
@pytest.mark.parametrize("write", [write_stripes, write_pitches])
def test_sites_with_files_give_the_simulators_bytes(write, tmp_path):
    path = write(tmp_path / "mine")
    local = {"epochs": 1, "batch_size": 8, "lr": 0.05}
    plan = Plan.of("fedavg", task={"name": "own", "path": str(path), "clients": 2}, local=local)
    played, simulated = Local(plan, tmp_path).play(), simulate(plan)
    assert torch.equal(played.row, simulated.row)
    assert not torch.equal(played.row, plan.blueprint.initial)
    task = plan.blueprint.site_task(south("mine/bob"), tmp_path)
    assert task.federation.columns["x"].shape[1:] == plan.blueprint.schema.shape
