"""A site's own data: the schema's columns, classes and shapes hold, and what does not fit is said in one sentence."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.data.readers.image_folder import read_image_folder
from fedloom.data.readers.under_schema import conforming_samples
from fedloom.data.schema import ClientSizes, DataSchema
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import SiteData, SiteSettings
from fedloom.rounds.jobs import Job
from fedloom.runs.resolve_config import resolve
from fedloom.tasks.graphs.read import save_graph
from support.small_graphs import clubs

HEADER = ["age", "weight", "kind"]
ROWS = [[str(20 + row), str(60 + 2 * row), ("cat", "dog", "fox")[row % 3]] for row in range(30)]
CHARACTERS = DataSchema(
    kind="columns", sites=("a",), shape=(3,), dtype="uint8", classes=5, target_shape=(2,), symbols=True
)


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([header, *rows])
    return path


def blueprint_of(task, sites=("north", "south"), **settings):
    return Blueprint.of(resolve({"rounds": 1, "task": {"clients": len(sites), **task}, **settings}), sites)


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """The task of a table with two features and three named classes."""
    path = write(tmp_path_factory.mktemp("operator") / "pets.csv", HEADER, ROWS)
    task = {"name": "own", "path": str(path), "target": "kind", "model": "logistic", "valid_share": 0.25}
    return blueprint_of(task)


@pytest.fixture(scope="module")
def digits():
    return blueprint_of({"name": "digits", "model": "logistic"})


def site(path, client=1, **data):
    return SiteSettings(name="south", client=client, data=SiteData(path=str(path), target="kind", **data))


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
    write(tmp_path / "mine.csv", ["kind", "weight", "age"], rows)
    task = pets.site_task(site("mine.csv"), tmp_path)
    assert pets.schema.features == ("age", "weight")
    assert samples(task) == [([31, 71], 1), ([32, 72], 2), ([33, 73], 1), ([34, 74], 2)]
    assert task.federation.classes == 3
    assert task.federation.class_names == ("cat", "dog", "fox")


def test_a_site_is_normalised_by_the_schema_and_not_by_its_own_data(pets, tmp_path):
    write(tmp_path / "mine.csv", HEADER, [["1000", "-5", "cat"], ["1000", "-5", "cat"]])
    task = pets.site_task(site("mine.csv"), tmp_path)
    mean, std = torch.tensor(pets.schema.mean), torch.tensor(pets.schema.std)
    expected = (torch.tensor([1000.0, -5.0]) - mean) / std
    assert torch.allclose(task.inputs(task.federation.train[1])[0], expected)


def test_the_split_follows_the_runs_shares_and_is_the_same_after_a_restart(pets, tmp_path):
    write(tmp_path / "mine.csv", HEADER, ROWS[:20])
    first, again = (pets.site_task(site("mine.csv"), tmp_path) for _ in range(2))
    assert ClientSizes.of(first.federation, 1) == ClientSizes(train=11, valid=5, test=4, points=20)
    assert len(samples(first)) == 20
    for part in ("train", "valid", "test"):
        assert torch.equal(getattr(first.federation, part)[1], getattr(again.federation, part)[1])
    other = pets.site_task(site("mine.csv", client=0), tmp_path)
    assert not torch.equal(first.federation.train[1], other.federation.train[0])


@pytest.mark.parametrize("ending", ["tsv", "parquet", "npz"])
def test_the_same_samples_in_another_format_are_the_same_task(pets, tmp_path, ending):
    write(tmp_path / "mine.csv", HEADER, ROWS)
    path, x, y = tmp_path / f"mine.{ending}", [[float(a), float(b)] for a, b, _ in ROWS], [row[2] for row in ROWS]
    if ending == "tsv":
        write(path, HEADER, ROWS)
    elif ending == "npz":
        np.savez(path, x=np.array(x), y=np.array(y))
    else:
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: parquet is not tried")
        from pyarrow import parquet

        ages, weights = zip(*x, strict=True)
        parquet.write_table(arrow.table({"weight": weights, "kind": y, "age": [int(age) for age in ages]}), path)
    expected = pets.site_task(site("mine.csv"), tmp_path).federation
    found = pets.site_task(site(path.name), tmp_path).federation
    for part in ("train", "valid", "test"):
        assert torch.equal(getattr(expected, part)[1], getattr(found, part)[1])
    assert all(torch.equal(expected.columns[name], found.columns[name]) for name in ("x", "y"))


def test_columns_that_a_site_ignores_may_hold_anything(pets, tmp_path):
    write(tmp_path / "mine.csv", ["owner", *HEADER], [[f"owner {n}", *row] for n, row in enumerate(ROWS)])
    assert len(samples(pets.site_task(site("mine.csv", ignore=["owner"]), tmp_path))) == 30


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
    "nan": (HEADER, [*ROWS[:2], ["1", "nan", "cat"]], "column 'weight', row 3 is not a number"),
    "infinite": (HEADER, [["inf", "1", "cat"], *ROWS[:2]], "column 'age', row 1 is infinite"),
    "one": (HEADER, ROWS[:1], "mine.csv has 1 sample: give at least two"),
    "none": (HEADER, [], "mine.csv has a header and no rows"),
    "ragged": (HEADER, [*ROWS[:2], ["1"]], "mine.csv, row 3: 1 cells where the header has 3"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_bad_table_is_refused_in_one_sentence_that_names_the_site_and_the_place(case, pets, tmp_path):
    header, rows, said = TABLES[case]
    write(tmp_path / "mine.csv", header, rows)
    refused(pets, site("mine.csv"), tmp_path, said)


def refused(blueprint, settings, folder, said):
    with pytest.raises(FedloomError) as caught:
        blueprint.site_task(settings, folder)
    sentence = str(caught.value)
    assert sentence.startswith("site south: ")
    assert said in sentence
    assert "\n" not in sentence


def test_a_site_without_data_is_told_where_to_name_them(pets, tmp_path):
    refused(pets, SiteSettings(name="south", client=1), tmp_path, "its site.toml names no data")
    refused(pets, site("nowhere.csv"), tmp_path, f"{tmp_path / 'nowhere.csv'} does not exist")
    (tmp_path / "mine.docx").touch()
    refused(pets, site("mine.docx"), tmp_path, "mine.docx: '.docx' files are not supported")
    (tmp_path / "mine.npz").write_bytes(b"PK\x03\x04 and no more")
    refused(pets, site("mine.npz"), tmp_path, "mine.npz is not a readable .npz file")


# -- arrays


def arrays(**changes):
    random = np.random.default_rng(0)
    return {"x": random.random((12, 1, 8, 8), dtype=np.float32), "y": np.arange(12) % 10, **changes}


def pickled():
    y = np.empty(12, dtype=object)
    y[:] = "3"
    return y


ARRAYS = {
    "shape": ({"x": np.zeros((12, 8, 8))}, "an input has shape (8, 8), and the task needs (1, 8, 8)"),
    "bytes": ({"x": np.zeros((12, 1, 8, 8), np.uint8)}, "the inputs are uint8, and the task needs float32"),
    "words": ({"x": np.full((12, 1, 8, 8), "a")}, "not numbers"),
    "lengths": ({"y": np.arange(5)}, "12 inputs and labels of shape (5,)"),
    "columns": ({"y": np.zeros((12, 2), np.int64)}, "y has shape (12, 2), and the task needs one label per sample"),
    "class": ({"y": np.arange(12)}, "the label 10 of row 11 is out of range"),
    "fraction": ({"y": np.arange(12) / 2}, "the label of row 2 is 0.5"),
    "nan": ({"x": np.full((12, 1, 8, 8), np.nan)}, "column 0, 0, 0, row 1 is not a number"),
    "objects": ({"y": pickled()}, "holds pickled Python objects"),
    "none": ({"x": np.zeros((0, 1, 8, 8)), "y": np.zeros(0, np.int64)}, "mine.npz has no samples"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_bad_arrays_are_refused(case, digits, tmp_path):
    changes, said = ARRAYS[case]
    np.savez(tmp_path / "mine.npz", **arrays(**changes))
    refused(digits, site("mine.npz"), tmp_path, said)


def test_arrays_lack_a_name_and_are_refused(digits, tmp_path):
    np.savez(tmp_path / "mine.npz", x=arrays()["x"])
    refused(digits, site("mine.npz"), tmp_path, "has no array 'y'")


def test_sequences_of_symbols_are_checked_against_the_vocabulary():
    x, y = np.array([[0, 4, 1], [2, 2, 2]]), np.array([[1, -100], [4, 0]])
    made = conforming_samples(x, y, CHARACTERS, "mine.npz")
    assert made.columns["x"].dtype == torch.uint8
    assert made.columns["y"].tolist() == y.tolist()
    with pytest.raises(FedloomError, match="row 2 has an input outside 0 to 4"):
        conforming_samples(np.array([[0, 0, 0], [0, 5, 0]]), y, CHARACTERS, "mine.npz")
    with pytest.raises(
        FedloomError, match="the target 5 of row 1 is not a class of the task: its 5 classes are numbered"
    ):
        conforming_samples(x, np.array([[1, 5], [0, 0]]), CHARACTERS, "mine.npz")
    with pytest.raises(FedloomError, match="the inputs are float32, and the task needs uint8"):
        conforming_samples(x.astype(float), y, CHARACTERS, "mine.npz")
    with pytest.raises(FedloomError, match="row 1 has an input outside 0 to 255"):
        conforming_samples(x - 1, y, CHARACTERS.model_copy(update={"symbols": False}), "mine.npz")


def test_the_others_at_a_site_are_placeholders_and_communal_samples_are_everyones(tmp_path):
    blueprint = blueprint_of({"name": "digits", "model": "logistic", "communal_per_class": 2})
    np.savez(tmp_path / "mine.npz", **arrays())
    federation = blueprint.site_task(site("mine.npz"), tmp_path).federation
    assert federation.train.sizes.tolist() == [1, 10]
    assert federation.names == ("north", "south")
    assert not len(federation.global_test)
    assert torch.equal(federation.columns["x"][federation.communal], blueprint.communal["x"])
    assert torch.equal(federation.columns["y"][federation.communal], blueprint.communal["y"])


def test_an_evaluator_tests_on_everything_it_has(digits, tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays())
    runtime = digits.runtime(digits.site_task(site("mine.npz", client=2), tmp_path))
    message = Message({"row": digits.initial})
    whole, alone = (runtime.do(job, message, {}) for job in (Job("global", 1, [0, 12], []), Job("score", 1, [2], [0])))
    assert float(whole["counts"]) == float(alone["counts"]) == 12
    assert float(whole["score"]) == float(alone["score"])


def test_settings_of_a_simulation_are_refused_with_own_data(tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays())
    everywhere = blueprint_of({"name": "digits", "model": "logistic"}, clients_on_global=True)
    refused(everywhere, site("mine.npz"), tmp_path, "clients_on_global = true")
    withheld = blueprint_of({"name": "digits", "model": "logistic", "withhold": {"label": 3, "clients": 1}})
    refused(withheld, site("mine.npz"), tmp_path, "task.withhold")


# -- folders of images


def picture(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def album(tmp_path):
    """Four images of two digits, as bytes."""
    random = np.random.default_rng(1)
    found = {(label, number): random.integers(0, 256, (8, 8), np.uint8) for label in (3, 7) for number in range(2)}
    for (label, number), pixels in found.items():
        picture(tmp_path / "album" / str(label) / f"{number}.png", pixels)
    return found


def test_a_folder_of_images_gives_its_pixels_and_the_schemas_classes(digits, tmp_path, album):
    (tmp_path / "album" / ".DS_Store").touch()
    task = digits.site_task(site("album"), tmp_path)
    expected = sorted(((pixels / np.float32(255))[None].tolist(), label) for (label, _), pixels in album.items())
    assert samples(task) == expected


def test_colour_images_of_bytes_stay_bytes(tmp_path):
    pixels = np.random.default_rng(2).integers(0, 256, (2, 4, 5, 3), np.uint8)
    for number, some in enumerate(pixels):
        picture(tmp_path / "pets" / "dog" / f"{number}.png", some)
    x, y = read_image_folder(tmp_path / "pets", (3, 4, 5), ("cat", "dog"))
    assert np.array_equal(x, pixels.transpose(0, 3, 1, 2))
    assert x.dtype == np.uint8
    assert y.tolist() == [1, 1]


GREY = np.zeros((8, 8), np.uint8)
PICTURES = {
    "class": ("bird/0.png", GREY, "the sub-folder 'bird' of album is not a class of the task (0, 1, 2"),
    "size": ("3/9.png", np.zeros((8, 9), np.uint8), "album/3/9.png is 9×8 pixels, and the task's images are 8×8"),
    "channels": (
        "3/9.png",
        np.zeros((8, 8, 3), np.uint8),
        "album/3/9.png has 3 channels, and the task's images have 1",
    ),
    "bits": ("3/9.png", np.zeros((8, 8), np.uint16), "album/3/9.png has more than 8 bits per channel"),
    "ending": ("3/9.bmp", GREY, "album/3/9.bmp is not a PNG or JPEG image"),
}


@pytest.mark.parametrize("case", PICTURES)
@pytest.mark.usefixtures("album")
def test_a_bad_image_is_refused(case, digits, tmp_path):
    name, pixels, said = PICTURES[case]
    picture(tmp_path / "album" / name, pixels)
    refused(digits, site("album"), tmp_path, said)


@pytest.mark.usefixtures("album")
def test_an_unreadable_image_is_named(digits, tmp_path):
    whole = (tmp_path / "album" / "7" / "1.png").read_bytes()
    for content in (b"", b"no image", whole[:60], whole[:40] + b"????" + whole[44:]):
        (tmp_path / "album" / "7" / "1.png").write_bytes(content)
        refused(digits, site("album"), tmp_path, "album/7/1.png is not a readable image")


@pytest.mark.usefixtures("album")
def test_folders_without_images_and_tables_for_images_are_refused(digits, pets, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(digits, site("empty"), tmp_path, "empty has no sub-folders")
    (tmp_path / "empty" / "3").mkdir()
    refused(digits, site("empty"), tmp_path, "empty has 0 images")
    refused(pets, site("album"), tmp_path, "the task needs inputs of shape (2,), not images")
    write(tmp_path / "mine.csv", HEADER, ROWS)
    refused(digits, site("mine.csv"), tmp_path, "mine.csv is a table, and the task needs inputs of shape (1, 8, 8)")


# -- graphs


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """The task of a graph in two tables, whose nodes have two features and three named classes."""
    folder = tmp_path_factory.mktemp("operator") / "clubs"
    tables(folder, ["x0", "x1"], ["ant", "bee", "cow"])
    task = {"name": "own-graph", "path": str(folder), "model_options": {"hidden": 4}, "valid_share": 0.25}
    return blueprint_of(task, local={"batch_size": 0})


def tables(folder, features, classes, nodes=24, values=None):
    folder.mkdir(parents=True, exist_ok=True)
    half = nodes // 2
    rows = []
    for node in range(nodes):
        numbers = values or {name: node % 5 + place for place, name in enumerate(features)}
        rows.append([node, classes[node % len(classes)], *numbers.values()])
    write(folder / "nodes.csv", ["id", "label", *features], rows)
    edges = [(a, b) for start in (0, half) for a in range(start, start + half) for b in range(a + 1, start + half)]
    write(folder / "edges.csv", ["source", "target"], [*edges, (0, half)])
    return folder


def test_a_site_brings_its_own_graph_under_the_schemas_classes(graph, tmp_path):
    """It has no ants, and its feature columns stand in another order."""
    tables(tmp_path / "mine", ["x1", "x0"], ["bee", "cow"], values={"x1": 3, "x0": 1})
    task = graph.site_task(site("mine"), tmp_path)
    federation = task.federation
    own = federation.graphs.original(1)
    assert graph.schema.features == ("x0", "x1")
    assert torch.allclose(own.features.to_dense(), torch.tensor([0.25, 0.75]).expand(24, 2))
    assert set(federation.columns["y"][federation.graphs.positions(1)].tolist()) == {1, 2}
    assert federation.graphs.sizes.tolist() == [1, 24]
    assert ClientSizes.of(federation, 1) == ClientSizes(train=14, valid=6, test=4, points=24)
    trained = graph.runtime(task).do(Job("update", 1, [1], [0]), Message({"row": graph.initial}), {})
    assert not torch.equal(trained["reply/row"][0], graph.initial)


def test_an_evaluator_may_have_a_graph(graph, tmp_path):
    tables(tmp_path / "mine", ["x0", "x1"], ["bee", "cow"])
    runtime = graph.runtime(graph.site_task(site("mine", client=2), tmp_path))
    whole = runtime.do(Job("global", 1, [0, 24], []), Message({"row": graph.initial}), {})
    assert float(whole["counts"]) == 24


def test_graphs_that_do_not_fit_are_refused(graph, tmp_path):
    tables(tmp_path / "narrow", ["x0"], ["bee"])
    refused(graph, site("narrow"), tmp_path, "nodes.csv has no feature column 'x1'")
    tables(tmp_path / "strange", ["x0", "x1"], ["bee", "elk"])
    refused(graph, site("strange"), tmp_path, "strange: the label 'elk' of node 1 is not a class of the task")
    tables(tmp_path / "many", ["x0", "x1"], ["0", "3"])
    refused(graph, site("many"), tmp_path, "many: the label '3' of node 1 is not a class of the task")
    save_graph(clubs(), tmp_path / "wide.npz")
    refused(graph, site("wide.npz"), tmp_path, "wide.npz: its nodes have 3 features, and the task's have 2")
    source = clubs(classes=2)
    nobody = {"train": torch.zeros(38, dtype=torch.bool), "test": source.parts["test"]}
    save_graph(replace(source, parts=nobody), tmp_path / "untrained.npz")
    refused(graph, site("untrained.npz"), tmp_path, "untrained.npz has no labelled node to train on")
