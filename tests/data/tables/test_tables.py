"""Tables as they are: files, parquet, a folder with a file per client, frames."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.tables.tables import as_texts, read_table, read_tables_per_client, table_header, table_of_frame


def test_a_folder_has_a_file_per_client(tmp_path):
    for client, rows in (("10", "1,a\n2,b\n"), ("9", "3,a\n"), ("north", "4,c\n")):
        (tmp_path / f"{client}.csv").write_text("n,ward\n" + rows)
    (tmp_path / "README.txt").write_text("not a table")
    table, test = read_tables_per_client(tmp_path)
    assert table.columns["client"].tolist() == ["9", "10", "10", "north"]
    assert table.columns["n"].tolist() == [3, 1, 2, 4]
    assert test is None


def test_train_and_test_folders_are_the_clients_parts(tmp_path):
    for part, rows in (("train", "1,a\n2,b\n"), ("test", "x,a\n")):
        (tmp_path / part).mkdir()
        (tmp_path / part / "one.csv").write_text("n,ward\n" + rows)
    table, test = read_tables_per_client(tmp_path)
    assert test is not None
    assert test.tolist() == [False, False, True]
    assert table.columns["n"].tolist() == ["1", "2", "x"]  # of numbers and texts, texts


def test_files_with_other_columns_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("n,ward\n1,a\n")
    (tmp_path / "b.csv").write_text("n,word\n1,a\n")
    with pytest.raises(FedloomError, match=r"a\.csv and b\.csv differ in the column 'ward'"):
        read_tables_per_client(tmp_path)


def test_a_frame_keeps_its_types():
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    frame = pandas.DataFrame(
        {
            "n": [1, 2, 3],
            "part": [0.5, None, 1.5],
            "flag": [True, False, True],
            "ward": ["a", None, "b"],
            "code": pandas.Categorical([1, 2, 1]),
            "day": pandas.to_datetime(["2026-01-31", None, "2026-02-01"]),
            "maybe": pandas.array([1, None, 3], dtype="Int64"),
        },
        index=[7, 8, 9],
    )
    table = table_of_frame(frame)
    assert table.columns["n"].tolist() == [1, 2, 3]
    assert table.columns["flag"].tolist() == [1, 0, 1]
    assert table.columns["ward"].tolist() == ["a", "", "b"]
    assert np.isnan(table.columns["part"][1])
    assert np.isnan(table.columns["maybe"][1])
    assert np.isnat(table.columns["day"][1])
    assert set(table.names) == {"code"}
    assert as_texts(table.columns["code"]).tolist() == ["1", "2", "1"]


def test_a_frame_and_its_files_are_the_same_table(tmp_path):
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    frame = pandas.DataFrame({"n": [1.5, None, 3], "ward": ["a", "b", None]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for found in (read_table(tmp_path / "a.csv"), read_table(tmp_path / "a.parquet")):
        assert np.array_equal(found.columns["n"], table_of_frame(frame).columns["n"], equal_nan=True)
        assert found.columns["ward"].tolist() == ["a", "b", ""]
    assert table_header(tmp_path / "a.csv") == table_header(tmp_path / "a.parquet") == ["n", "ward"]


def test_columns_that_are_ignored_must_exist(tmp_path):
    (tmp_path / "a.csv").write_text("n,ward\n1,a\n")
    assert list(read_table(tmp_path / "a.csv", ignore=["ward"]).columns) == ["n"]
    with pytest.raises(FedloomError, match="has no column 'word': its columns are n, ward"):
        read_table(tmp_path / "a.csv", ignore=["word"])


def test_a_client_without_a_name_is_named_by_its_row(tmp_path):
    (tmp_path / "a.csv").write_text("n,site\n1,a\n2,\n")
    with pytest.raises(FedloomError, match="column 'site', row 2: the cell is empty"):
        read_table(tmp_path / "a.csv").texts("site", "client")


@pytest.mark.parametrize(("mark", "kind"), [(";", "number"), ("\t", "number"), (",", "classes")])
def test_a_target_with_decimal_commas_is_a_number_where_commas_do_not_separate_cells(tmp_path, mark, kind):
    rows = [f'{n % 7}{mark}"{n % 5},{n % 3}"' for n in range(40)]
    (tmp_path / "a.csv").write_text("\n".join([f"a{mark}days", *rows]))
    made = fl.read(tmp_path / "a.csv", target="days", clients=2)
    assert fl.task_of(made).kind == kind
    if kind == "number":
        assert made.columns["y"][:4].tolist() == pytest.approx([0.0, 1.1, 2.2, 3.0])


def test_an_error_shows_a_column_without_a_name(tmp_path):
    (tmp_path / "a.csv").write_text(",a\n1,2\n")
    with pytest.raises(FedloomError, match=r"its columns are \(no name\), a"):
        read_table(tmp_path / "a.csv").require(["b"])
