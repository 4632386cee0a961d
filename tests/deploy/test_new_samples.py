"""New rows, and a site's rows, become the same inputs as the rows that a model was trained on."""

from pathlib import Path

import pytest
import torch

import fedloom as fl
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.under_schema import read_under_schema
from fedloom.deploy.new_samples import read_new_samples
from fedloom.deploy.saved_model import SavedModel, model_at
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
