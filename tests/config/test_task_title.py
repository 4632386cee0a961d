"""What titles call the data of a run."""

from __future__ import annotations

import pytest

from fedloom.config.task_title import task_title


@pytest.mark.parametrize(
    ("task", "title"),
    [
        ({"name": "digits"}, "digits"),
        ({"name": "own", "path": "/data/north/stays.csv"}, "stays.csv"),
        ({"name": "own", "path": "../images/"}, "images"),
        ({"name": "own"}, "own data"),
        ("digits", "digits"),
        ({}, "digits"),
    ],
)
def test_a_file_is_called_by_its_name_and_named_data_by_theirs(task, title):
    assert task_title({"task": task}) == title


def test_a_config_without_a_task_has_the_usual_one():
    assert task_title({}) == "digits"
