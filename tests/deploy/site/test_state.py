"""What a site keeps: states by ticket on its own disk, whole or not at all, and never more than is needed."""

from __future__ import annotations

import stat

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from fedloom.core.kept_rows import KeptRows
from fedloom.deploy.site.state import NOTHING, SiteState, StateLost
from support.local_transport import quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
STATE = {"c": KeptRows.of_all(torch.arange(6.0).view(2, 3).T)}  # not contiguous


def test_a_state_comes_back_as_it_was_kept(tmp_path):
    SiteState(tmp_path / "kept").write("a", STATE)
    found = SiteState(tmp_path / "kept").read("a")  # after a restart
    assert found.keys() == STATE.keys()
    assert torch.equal(found["c"].rows, STATE["c"].rows)
    assert torch.equal(found["c"].has, STATE["c"].has)


def test_a_state_file_has_rows_and_mask_under_the_names_of_every_version(tmp_path):
    SiteState(tmp_path / "kept").write("a", STATE)
    for path in (tmp_path / "kept").iterdir():
        found = load_file(path)
        assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in found.items()} == {
            "c": (torch.float32, (3, 2)),
            "c/has": (torch.float32, (3,)),
        }


def test_who_has_kept_nothing_yet_has_an_empty_state(tmp_path):
    assert SiteState(tmp_path / "kept").read(NOTHING) == {}


def test_a_state_that_is_gone_is_lost(tmp_path):
    kept = SiteState(tmp_path / "kept")
    with pytest.raises(StateLost, match="the client state of this site is lost: it starts again without one"):
        kept.read("a")


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x04}"], ids=["empty", "garbage", "pickle"])
def test_a_state_that_cannot_be_read_is_lost(tmp_path, content):
    kept = SiteState(tmp_path / "kept")
    kept.write("a", STATE)
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(content)
    with pytest.raises(StateLost):
        kept.read("a")


@pytest.mark.parametrize("copy", [0, 1])
def test_a_flipped_bit_in_one_copy_changes_nothing(tmp_path, caplog, copy):
    kept = SiteState(tmp_path / "kept")
    kept.write("a", STATE)
    path = sorted((tmp_path / "kept").iterdir())[copy]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert torch.equal(kept.read("a")["c"].rows, STATE["c"].rows)
    assert ("is damaged" in caplog.text) == (copy == 0)


def test_only_what_is_named_stays(tmp_path):
    kept = SiteState(tmp_path / "kept")
    for ticket in "abcd":
        kept.write(ticket, STATE)
    (tmp_path / "kept" / "torn.safetensors.part").write_bytes(b"half")
    kept.discard_all_but("b", "d", NOTHING)
    assert [ticket for ticket in "abcd" if kept.has(ticket)] == ["b", "d"]
    assert len(list((tmp_path / "kept").iterdir())) == 2 * 2


def test_nobody_else_on_the_machine_may_look(tmp_path):
    SiteState(tmp_path / "kept")
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700


@given(st.text(max_size=200))
def test_no_ticket_names_a_file_outside(tmp_path_factory, ticket):
    """A ticket comes from elsewhere: it may say ../../ or be as long as it likes."""
    folder = tmp_path_factory.getbasetemp() / "kept"
    kept = SiteState(folder)
    before = set(folder.iterdir())
    kept.write(ticket, STATE)
    new = set(folder.iterdir()) - before
    assert kept.has(ticket)
    assert all(len(path.name) < 100 for path in new)
    kept.discard_all_but()


def test_different_tickets_are_different_files(tmp_path):
    kept = SiteState(tmp_path / "kept")
    kept.write("a", STATE)
    assert not kept.has("A")
    assert not kept.has("a ")
    assert not kept.has("../a")
