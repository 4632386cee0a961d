"""The file of rounds that began: it only grows, and what it has lost is refused."""

import pytest

from fedloom.core.errors import FedloomError
from fedloom.runs.folder.begun_rounds import BEGUN, BegunRounds


@pytest.fixture
def folder(tmp_path):
    begun = BegunRounds.start(tmp_path)
    for number in (1, 2, 2, 3):
        begun.append(number)
    return tmp_path


def test_what_was_noted_is_read_and_continued(folder):
    BegunRounds.read(folder, 3).append(4)
    assert BegunRounds.read(folder, 4).rounds == [1, 2, 2, 3, 4]


def test_a_line_that_a_kill_left_incomplete_counts_as_a_round(folder):
    """Nothing was drawn yet, and a count may only be too large: the folder knows of no third round."""
    path = folder / BEGUN
    path.write_bytes(path.read_bytes()[:-5])
    assert BegunRounds.read(folder, 2).rounds == [1, 2, 2, 2]
    BegunRounds.read(folder, 2).append(3)
    assert BegunRounds.read(folder, 3).rounds == [1, 2, 2, 2, 3]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), r"begun.jsonl is missing, so it is not known what this run has spent"),
        (lambda path: path.write_bytes(b""), "has fewer rounds than the run has played"),
        (lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:3])), "has fewer rounds"),
        (lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(True)[1:])), "not what the run wrote"),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b'"round":3', b'"round":2')),
            "not what the run wrote",
        ),
        (lambda path: path.write_bytes(b"[]\n" + path.read_bytes()), "not what the run wrote"),
    ],
)
def test_a_file_that_is_lost_cut_or_changed_is_refused(folder, damage, said):
    damage(folder / BEGUN)
    with pytest.raises(FedloomError, match=said):
        BegunRounds.read(folder, 3)
