"""What ``import fedloom`` offers, and what it says about names of earlier versions."""

import pytest

import fedloom


@pytest.mark.parametrize("name", fedloom.__all__)
def test_every_public_name_is_there(name):
    assert getattr(fedloom, name) is not None


@pytest.mark.parametrize(("old", "new"), fedloom._RENAMED.items())
def test_an_old_name_is_refused_with_the_new_one(old, new):
    with pytest.raises(ImportError, match=f"fedloom.{old} is now fedloom.{new}"):
        getattr(fedloom, old)
    assert new in fedloom.__all__


def test_importing_an_old_name_says_the_new_one():
    with pytest.raises(ImportError, match=r"fedloom\.own is now fedloom\.read"):
        from fedloom import own  # noqa: F401
    with pytest.raises(ImportError, match=r"fedloom\.tasks\.flows\.picture is now fedloom\.tasks\.flows\.draw_flow"):
        from fedloom.tasks.flows import picture  # noqa: F401
