"""New rows, and a site's rows, become the same inputs as the rows that a model was trained on."""

import shutil
from pathlib import Path

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.tables.schema import DataSchema
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.under_schema import read_under_schema
from fedloom.deploy.new_samples import read_new_samples
from fedloom.deploy.saved_model import SavedModel, model_at
from support.media_files import write_pitches, write_stripes
from support.messy_tables import write_messy


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, fl.Federation, SavedModel]:
    """A messy table, its federation, and the model of a run on it."""
    folder = tmp_path_factory.mktemp("messy")
    path = write_messy(folder / "a.csv")
    federation = fl.read(path, target="days", client="site")
    fl.run(fl.task_of(federation), rounds=2, out=folder / "run")
    return path, federation, model_at(folder / "run")


def rows_with_a_target(path: Path) -> list[int]:
    rows = [line for line in path.read_text().splitlines()[1:] if line]
    return [place for place, line in enumerate(rows) if not line.endswith(";")]


def test_rows_to_predict_get_the_medians_and_levels_of_the_training(messy) -> None:
    path, federation, saved = messy
    samples = read_new_samples([path], saved)
    kept = rows_with_a_target(path)
    assert torch.equal(samples.inputs[kept], federation.columns["x"])
    assert samples.labelled.nonzero().flatten().tolist() == kept


def test_one_row_is_predicted_as_it_is_among_others(messy, tmp_path: Path) -> None:
    path, _, saved = messy
    header, *rows = [line for line in path.read_text().splitlines() if line]
    everyone = saved.predict(read_new_samples([path], saved).inputs)
    for place in (0, 9, 11):  # age and ward, age, and ward are missing
        (tmp_path / "one.csv").write_text(f"{header}\n{rows[place]}\n")
        alone = saved.predict(read_new_samples([tmp_path / "one.csv"], saved).inputs)
        assert torch.allclose(alone[0], everyone[place], atol=1e-5)


def test_a_site_makes_the_same_inputs_of_its_rows_and_changes_no_median(messy, tmp_path: Path) -> None:
    path, federation, saved = messy
    header, *rows = [line for line in path.read_text().splitlines() if line]
    kept = rows_with_a_target(path)
    own = [place for place in kept if rows[place].split(";")[4] == "north"]
    (tmp_path / "site.csv").write_text("\n".join([header, *(rows[place] for place in own)]))
    samples = read_under_schema(tmp_path / "site.csv", saved.schema, TableColumns("days", "site"))
    assert torch.equal(samples.columns["x"], federation.columns["x"][[kept.index(place) for place in own]])


# -- a table in pieces


def split_into_pieces(path: Path, folder: Path) -> Path:
    """A table's rows in files of 4, the last with fewer, named so that their order is not that of the alphabet."""
    header, *rows = [line for line in path.read_text().splitlines() if line]
    folder.mkdir()
    for number, start in enumerate(range(0, len(rows), 4), start=1):
        (folder / f"{number}.csv").write_text("\n".join([header, *rows[start : start + 4]]))
    (folder / ".~lock.csv").write_text("not a table")
    return folder


def test_a_folder_of_pieces_is_the_table_at_a_site_and_in_new_samples(messy, tmp_path: Path) -> None:
    path, _, saved = messy
    pieces = split_into_pieces(path, tmp_path / "pieces")
    assert len(list(pieces.glob("[0-9]*.csv"))) > 2
    columns = TableColumns("days", "site")
    at_site, whole = (read_under_schema(one, saved.schema, columns).columns for one in (pieces, path))
    assert torch.equal(at_site["x"], whole["x"])
    assert torch.equal(at_site["y"], whole["y"])
    new, known = read_new_samples([pieces], saved), read_new_samples([path], saved)
    assert torch.equal(saved.predict(new.inputs), saved.predict(known.inputs))
    assert torch.equal(new.targets, known.targets)


def test_a_folder_of_parquet_pieces_is_the_table_at_a_site(tmp_path: Path) -> None:
    (tmp_path / "pieces").mkdir()
    for number, rows in enumerate((40, 12)):
        write_patients_as_lists(tmp_path / "pieces" / f"{number}.parquet", rows)
    task = fl.task("own", path=str(tmp_path / "pieces"), target="symptoms", client_column="site", empty_labels="none")
    fl.run(task, rounds=1, out=tmp_path / "run")
    schema, columns = model_at(tmp_path / "run").schema, TableColumns("symptoms", "site", empty_labels="none")
    at_site = read_under_schema(tmp_path / "pieces", schema, columns).columns
    assert all(torch.equal(at_site[name], task.federation.columns[name]) for name in ("x", "y"))


def test_a_folder_without_a_table_and_pieces_that_differ_are_refused(messy, tmp_path: Path) -> None:
    path, _, saved = messy
    (tmp_path / "empty").mkdir()
    with pytest.raises(FedloomError, match=r"empty is not a table.*or a folder with its pieces"):
        read_under_schema(tmp_path / "empty", saved.schema, TableColumns("days", "site"))
    pieces = split_into_pieces(path, tmp_path / "pieces")
    (pieces / "2.csv").write_text("days\n3\n")
    with pytest.raises(FedloomError, match=r"1.csv and 2.csv differ in the column"):
        read_under_schema(pieces, saved.schema, TableColumns("days", "site"))


# -- labels of which a row may have none


SYMPTOMS = ("cough|fever", "", "fever", "rash|cough")


def write_patients(path: Path, rows: int = 40) -> Path:
    cells = [f"{n % 7},{(n * n) % 5},{SYMPTOMS[n % 4]},{'north' if n % 3 else 'south'}" for n in range(rows)]
    path.write_text("\n".join(["pulse,weight,symptoms,site", *cells]))
    return path


def write_patients_as_lists(path: Path, rows: int = 40) -> Path:
    arrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    lists = [[name for name in SYMPTOMS[n % 4].split("|") if name] for n in range(rows)]
    columns = {"pulse": [n % 7 for n in range(rows)], "weight": [(n * n) % 5 for n in range(rows)], "symptoms": lists}
    sites = ["north" if n % 3 else "south" for n in range(rows)]
    parquet.write_table(arrow.table({**columns, "site": sites}), path)
    return path


@pytest.mark.parametrize(("name", "write"), [("a.csv", write_patients), ("a.parquet", write_patients_as_lists)])
def test_an_empty_cell_is_none_of_the_labels_in_a_run_at_a_site_and_in_new_samples(name, write, tmp_path, caplog):
    path = write(tmp_path / name)
    settings = {"path": str(path), "target": "symptoms", "client_column": "site"}
    task = fl.task("own", **settings, empty_labels="none")
    expected = 10 * [[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 1]]
    assert task.federation.columns["y"].tolist() == expected
    assert any("10 rows have none of them" in note for note in task.federation.notes)
    without = fl.task("own", **settings, kind="labels").federation
    assert len(without.columns["y"]) == 30
    assert any("--empty-labels none keeps them" in note for note in without.notes)
    fl.run(task, rounds=1, out=tmp_path / "run")
    saved = model_at(tmp_path / "run")
    columns = TableColumns("symptoms", "site", empty_labels="none")
    assert read_under_schema(path, saved.schema, columns).columns["y"].tolist() == expected
    assert "of the labels, 10 rows have none of them" in caplog.text
    new = read_new_samples([path], saved)
    assert (new.labelled.all(), new.targets.tolist()) == (True, expected)


def test_new_rows_whose_labels_are_all_empty_have_no_labels_to_score(tmp_path):
    path = write_patients(tmp_path / "a.csv")
    task = fl.task("own", path=str(path), target="symptoms", client_column="site", empty_labels="none")
    fl.run(task, rounds=1, out=tmp_path / "run")
    (tmp_path / "new.csv").write_text("pulse,weight,symptoms,site\n1,2,,north\n2,3,,north\n")
    assert not read_new_samples([tmp_path / "new.csv"], model_at(tmp_path / "run")).labelled.any()


# -- images and sounds


@pytest.fixture(scope="module", params=[write_stripes, write_pitches])
def heard_or_seen(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, fl.Federation, SavedModel]:
    """A folder of files, its federation, and the model of a run on it."""
    folder = tmp_path_factory.mktemp("files")
    path = request.param(folder / "mine")
    federation = fl.read(path)
    fl.run(fl.task_of(federation), rounds=2, out=folder / "run")
    return path, federation, model_at(folder / "run")


def test_files_to_predict_become_what_the_training_made_of_them(heard_or_seen) -> None:
    path, federation, saved = heard_or_seen
    samples = read_new_samples([path], saved)
    assert torch.equal(samples.inputs, federation.columns["x"])
    assert torch.equal(samples.targets, federation.columns["y"])
    assert samples.names[0].startswith("ann/")
    files = sorted(path.rglob("*.*"))[:3]
    assert torch.equal(read_new_samples(files, saved).inputs, federation.columns["x"][:3])


def test_a_table_of_files_is_predicted_with_the_labels_it_has(heard_or_seen, tmp_path: Path) -> None:
    path, federation, saved = heard_or_seen
    files = sorted(path.rglob("*.*"))[:4]
    rows = [f"{file},{file.parent.name if number else ''}" for number, file in enumerate(files)]
    (tmp_path / "new.csv").write_text("\n".join(["place,label", *rows]))
    samples = read_new_samples([tmp_path / "new.csv"], saved)
    assert torch.equal(samples.inputs, federation.columns["x"][:4])
    assert samples.labelled.tolist() == [False, True, True, True]


def test_a_site_makes_the_same_inputs_of_its_files(heard_or_seen, caplog: pytest.LogCaptureFixture) -> None:
    path, federation, saved = heard_or_seen
    samples = read_under_schema(path / "bob", saved.schema, TableColumns())
    assert torch.equal(samples.columns["x"], federation.columns["x"][16:])
    assert torch.equal(samples.columns["y"], federation.columns["y"][16:])
    bad = next((path / "bob").rglob("*.*"))
    whole = bad.read_bytes()
    try:
        bad.write_bytes(b"no")
        with pytest.raises(FedloomError, match=f"bob/{bad.parent.name}/{bad.name} is not a readable"):
            read_under_schema(path / "bob", saved.schema, TableColumns())
        assert len(read_under_schema(path / "bob", saved.schema, TableColumns(), True).columns["y"]) == 15
        assert "is left out, since it cannot be read" in caplog.text
    finally:
        bad.write_bytes(whole)


def test_an_unknown_class_at_a_site_is_refused(heard_or_seen, tmp_path: Path) -> None:
    path, _, saved = heard_or_seen
    shutil.copytree(path / "ann", tmp_path / "ann")
    first = sorted((tmp_path / "ann").iterdir())[0]
    first.rename(first.with_name("bird"))
    with pytest.raises(FedloomError, match=r"the sub-folder 'bird' of ann is not a class of the task \("):
        read_under_schema(tmp_path / "ann", saved.schema, TableColumns())


def test_a_schema_with_a_plan_of_files_is_read_back_as_it_was(heard_or_seen) -> None:
    schema = heard_or_seen[2].schema
    again = DataSchema.model_validate_json(schema.model_dump_json())
    assert again == schema
    assert type(again.plan) is type(heard_or_seen[1].plan)
