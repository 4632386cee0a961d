"""Folders and tables of files: which layouts are read, and what is said of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.data.media.file_table import NAME, PATH, folder_table, has_client_folders, path_column, path_table
from fedloom.data.media.image_plan import IMAGE_ENDINGS
from fedloom.data.media.medium import IMAGES, SOUNDS, medium_of
from fedloom.data.tables.table_columns import USUAL_COLUMNS, TableColumns


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


def read(folder: Path, client_from: str | None = None) -> tuple[dict[str, list[str]], list[bool] | None]:
    table, test, _ = folder_table(folder, USUAL_COLUMNS, "image", IMAGE_ENDINGS, client_from)
    columns = {name: cells.tolist() for name, cells in table.columns.items() if name != PATH}
    return columns, None if test is None else test.tolist()


def test_a_folder_per_client_has_folders_per_class(tmp_path):
    folder = touch(tmp_path / "pets", "bob/cat/1.png", "ann/dog/2.JPG", "ann/.DS_Store", "ann/dog/Thumbs.db")
    touch(folder, ".git/a/b.png")
    names = ["pets/ann/dog/2.JPG", "pets/bob/cat/1.png"]
    assert read(folder) == ({NAME: names, "label": ["dog", "cat"], "client": ["ann", "bob"]}, None)
    assert has_client_folders(folder, IMAGE_ENDINGS)


def test_folders_of_classes_name_no_client(tmp_path):
    folder = touch(tmp_path / "pets", "cat/ann_1.png", "dog/bob_2.png")
    assert read(folder)[0]["label"] == ["cat", "dog"]
    assert "client" not in read(folder)[0]
    assert not has_client_folders(folder, IMAGE_ENDINGS)
    assert read(folder, "([a-z]+)_[0-9]")[0]["client"] == ["ann", "bob"]


def test_train_and_test_are_parts(tmp_path):
    folder = touch(tmp_path / "pets", "train/cat/1.png", "train/dog/2.png", "test/cat/3.png", "README.md")
    columns, test = read(folder)
    assert columns["label"] == ["cat", "dog", "cat"]
    assert test == [False, False, True]


LAYOUTS = {
    "in no sub-folder": (["1.png", "cat/2.png"], "pets/1.png lies in no sub-folder: put the images of each class"),
    "mixed": (["a/cat/1.png", "dog/2.png"], "pets/a/cat/1.png and pets/dog/2.png lie at different depths"),
    "deep": (["a/b/c/1.png", "a/b/c/2.png"], "pets/a/b/c/1.png lies 3 folders deep: put images into client/class/FILE"),
    "validation": (["train/a/1.png", "val/a/2.png"], "pets has the sub-folder 'val' beside 'train': move its images"),
    "one": (["cat/1.png"], "pets has 1 images: give at least two"),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_another_layout_is_refused_with_the_two_that_are_read(case, tmp_path):
    names, message = LAYOUTS[case]
    with pytest.raises(FedloomError) as caught:
        read(touch(tmp_path / "pets", *names))
    assert message in str(caught.value)


def test_a_class_without_an_image_is_refused(tmp_path):
    folder = touch(tmp_path / "pets", "cat/1.png", "cat/2.png", "dog/.hidden")
    with pytest.raises(FedloomError, match=r"pets/dog has no images: add some, or remove the folder"):
        read(folder)


def test_a_link_to_a_folder_is_refused_and_one_to_a_file_is_followed(tmp_path):
    folder = touch(tmp_path / "pets", "cat/1.png", "dog/2.png")
    (folder / "dog" / "3.png").symlink_to(folder / "cat" / "1.png")
    assert read(folder)[0]["label"] == ["cat", "dog", "dog"]
    (folder / "dog" / "loop").symlink_to(folder)
    with pytest.raises(FedloomError, match=r"pets/dog/loop is a link to a folder, which is not followed"):
        read(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_named(tmp_path):
    folder = touch(tmp_path / "pets", "cat/1.png", "dog/2.png")
    (folder / "dog").chmod(0)
    with pytest.raises(FedloomError, match=r"pets/dog cannot be read \(Permission denied\)"):
        read(folder)


@pytest.mark.parametrize(
    ("rule", "message"),
    {
        "(": "client_from='(' is not a regular expression",
        "cat": "client_from='cat' has 0 groups: put parentheses around what names the client",
        "(x)": r"pets: client_from='(x)' finds no client in the path 'cat/1.png'",
    }.items(),
)
def test_a_rule_that_finds_no_client_is_refused(rule, message, tmp_path):
    with pytest.raises(FedloomError) as caught:
        read(touch(tmp_path / "pets", "cat/1.png", "dog/2.png"), rule)
    assert message in str(caught.value)


# -- tables of paths


def write_table(folder: Path, text: str, *files: str) -> Path:
    touch(folder, *files)
    (folder / "t.csv").write_text(text)
    return folder / "t.csv"


def test_the_column_of_paths_is_the_first_that_names_a_file(tmp_path):
    path = write_table(tmp_path, "id,photo,label,age\n1,a.png,cat,3\n2,gone.png,dog,4\n", "a.png")
    assert path_column(path, USUAL_COLUMNS, IMAGE_ENDINGS) == ("photo", "a.png")
    table, notes = path_table(path, USUAL_COLUMNS, "image", IMAGE_ENDINGS)
    assert table.columns[PATH].tolist() == [str(tmp_path / "a.png"), str(tmp_path / "gone.png")]
    assert table.columns[NAME].tolist() == ["t.csv, row 1: a.png", "t.csv, row 2: gone.png"]
    assert sorted(table.columns) == sorted([PATH, NAME, "label"])
    assert notes == ["column 'photo' has the paths of the images", "left out, since the inputs are images: id, age"]


def test_names_of_files_that_are_not_there_are_a_column_like_any_other(tmp_path):
    path = write_table(tmp_path, "photo,age,label\na.png,3,cat\nb.png,4,dog\n")
    assert medium_of(path, USUAL_COLUMNS) is None
    assert medium_of(path, TableColumns(ignore=["age"])) is IMAGES  # there is no other for the inputs
    assert medium_of(path, USUAL_COLUMNS, "photo") is IMAGES


@pytest.mark.parametrize("text", ["a long answer " * 50, "a long answer " * 50 + "in photo.png", "~nobody asked.png"])
def test_a_text_that_cannot_be_a_path_is_no_file(text, tmp_path):
    """A cell of more than 255 characters was looked for as a file, which the system refuses."""
    path = write_table(tmp_path, f"answer,age,label\n{text},3,cat\nno,4,dog\n")
    assert path_column(path, USUAL_COLUMNS, IMAGE_ENDINGS) is None


def test_a_named_column_must_be_there_and_hold_paths(tmp_path):
    path = write_table(tmp_path, "photo,age,label\na.png,3,cat\nb.png,4,dog\n")
    refused = {
        "foto": "t.csv has no column 'foto': its columns are photo, age, label",
        "age": "t.csv: column 'age', row 1: '3' is not the path of an image or a sound",
    }
    for column, message in refused.items():
        with pytest.raises(FedloomError) as caught:
            medium_of(path, USUAL_COLUMNS, column)
        assert message in str(caught.value)


def test_an_empty_path_is_named_by_its_row(tmp_path):
    path = write_table(tmp_path, "photo,label\na.png,cat\n,dog\n", "a.png")
    with pytest.raises(FedloomError, match=r"t.csv: column 'photo', row 2: the cell is empty: name the file"):
        path_table(path, USUAL_COLUMNS, "image", IMAGE_ENDINGS)


def test_what_a_folder_holds_follows_from_its_sub_folders(tmp_path):
    assert medium_of(touch(tmp_path / "a", "x/1.png", "y/2.png"), USUAL_COLUMNS) is IMAGES
    assert medium_of(touch(tmp_path / "b", "x/1.wav"), USUAL_COLUMNS) is SOUNDS
    assert medium_of(touch(tmp_path / "c", "1.csv", "plot.png"), USUAL_COLUMNS) is None
    assert medium_of(touch(tmp_path / "d", "train/1.npz", "test/1.npz"), USUAL_COLUMNS) is None


def test_a_folder_with_its_own_table_of_files_says_so(tmp_path):
    write_table(tmp_path, "photo,label\nimages/a.png,cat\n", "images/a.png", "images/b.png")
    with pytest.raises(FedloomError, match=r"has a table of files, t.csv: give the table itself, --data .*/t.csv"):
        medium_of(tmp_path, USUAL_COLUMNS)
