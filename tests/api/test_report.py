"""``fl.report``: one page about whatever has runs in it."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    task = fl.task("digits", clients=4, alpha=0.5)
    return fl.compare(task, ["fedavg", "local"], rounds=1, out=tmp_path_factory.mktemp("compared") / "c")


@pytest.mark.slow
def test_the_page_of_a_comparison_is_in_its_folder(compared):
    page = compared.folder / "report.html"
    before = page.read_text()
    page.unlink()
    assert fl.report(compared) == page
    assert page.read_text() == before


@pytest.mark.slow
def test_a_history_a_folder_and_a_list_have_pages_too(compared, tmp_path):
    history = compared["fedavg"][0]
    for number, runs in enumerate((str(compared.folder), [history, compared["local"][0]])):
        page = fl.report(runs, tmp_path / f"{number}.html", title="Hospitals")
        assert "Hospitals" in page.read_text()
    assert fl.report(history) == history.folder / "report.html"


def test_runs_in_memory_need_a_path():
    history = fl.run(fl.task("digits", clients=4), rounds=1)
    with pytest.raises(FedloomError, match="these runs have no folder"):
        fl.report([history])


@pytest.mark.parametrize("runs", [[], {}, [3]])
def test_what_is_no_run_is_one_sentence(runs, tmp_path):
    with pytest.raises(FedloomError, match=r"no run|not a run"):
        fl.report(runs, tmp_path / "r.html")
