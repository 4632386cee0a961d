"""CSV files as people have them: separators, packing, marks of missing cells, blank lines."""

import gzip

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.data.readers import csv
from fedloom.data.readers.csv import csv_columns, csv_rows

CELLS = [["age", "ward", "dose"], ["31", "a", "1.5"], ["", "b", "NA"], ["40", "a", "2"]]


def columns(path, **more):
    return {name: column.tolist() for name, column in csv_columns(path, **more).items()}


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_separators_packing_and_byte_order_marks_do_not_matter(tmp_path, mark, packed, bom):
    text = bom + "\n\n".join(mark.join(row) for row in CELLS) + "\n" + 2 * mark + "\n\n"
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    found = csv_columns(path)
    assert found["ward"].tolist() == ["a", "b", "a"]
    assert np.array_equal(found["age"], [31, np.nan, 40], equal_nan=True)
    assert np.array_equal(found["dose"], [1.5, np.nan, 2], equal_nan=True)


def test_decimal_commas_are_numbers_where_a_comma_is_no_separator(tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1,5;x\n-2,25;y\n")
    assert columns(tmp_path / "a.csv")["a"] == [1.5, -2.25]
    (tmp_path / "b.csv").write_text('a,b\n"1,5",x\n"2,25",y\n')  # may be 15 thousandths or thousands
    assert columns(tmp_path / "b.csv")["a"] == ["1,5", "2,25"]


def test_a_separator_inside_quotes_is_none(tmp_path):
    (tmp_path / "a.csv").write_text('"a;b;c;d",e\n1,2\n')
    assert columns(tmp_path / "a.csv") == {"a;b;c;d": [1.0], "e": [2.0]}


def test_a_column_that_is_text_only_in_a_later_chunk_keeps_its_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "CHUNK", 2)
    (tmp_path / "a.csv").write_text("code,n\n01,1\n02,2\n03,3\nx4,4\n")
    assert columns(tmp_path / "a.csv") == {"code": ["01", "02", "03", "x4"], "n": [1.0, 2.0, 3.0, 4.0]}


def test_columns_of_names_stay_as_they_are_written(tmp_path):
    (tmp_path / "a.csv").write_text("site,n\n007,1\n010,2\n")
    assert columns(tmp_path / "a.csv", texts=["site"])["site"] == ["007", "010"]


@pytest.mark.parametrize("missing", ["", " ", "NA", "nan", "None", "null", "?", "N/A"])
def test_marks_of_missing_cells(tmp_path, missing):
    (tmp_path / "a.csv").write_text(f"a,b,c\n1,x,7\n{missing},{missing},7\n3,none,7\n")
    found = csv_columns(tmp_path / "a.csv")
    assert np.isnan(found["a"][1])
    assert found["b"].tolist() == ["x", "", "none"]  # a level may be called none


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a.csv is empty"),
        (b"\n\n", "a.csv is empty"),
        (b"a,b\n", "a header and no rows"),
        (b"a,a\n1,2\n", "the column 'a' twice"),
        (b"a,b\n1,2\n\n3\n", "row 2: 1 cells where the header has 2"),
        (b"a,b\n\xff\xfe,2\n", "not a readable CSV file in UTF-8"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, said):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(FedloomError, match=said):
        csv_columns(tmp_path / "a.csv")


def test_a_packed_file_that_is_cut_off_is_refused(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-20])
    with pytest.raises(FedloomError, match="not a readable CSV file"):
        csv_columns(tmp_path / "a.csv.gz")


def test_rows_come_in_chunks_after_the_header(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "CHUNK", 2)
    (tmp_path / "a.csv").write_text("a\n1\n\n2\n3\n")
    assert [list(rows) for rows in csv_rows(tmp_path / "a.csv")] == [[["a"]], [["1"], ["2"]], [["3"]]]
