"""The token of a watched deployment is its owner's alone."""

from __future__ import annotations

import pytest

from fedloom.core.errors import FedloomError
from fedloom.watch.token_file import TOKEN, make_token, read_token


def test_a_token_is_made_once_and_only_the_owner_may_read_it(tmp_path):
    assert read_token(tmp_path) == ""
    token = make_token(tmp_path)
    assert make_token(tmp_path) == read_token(tmp_path) == token
    assert len(token) >= 32
    assert (tmp_path / TOKEN).stat().st_mode & 0o777 == 0o600
    (tmp_path / TOKEN).chmod(0o640)
    with pytest.raises(FedloomError, match="nobody else may read: chmod 600"):
        read_token(tmp_path)


def test_a_token_that_is_too_short_or_a_link_is_refused(tmp_path):
    (tmp_path / TOKEN).touch(mode=0o600)
    with pytest.raises(FedloomError, match="does not hold a token of 20 or more"):
        read_token(tmp_path)
    (tmp_path / TOKEN).unlink()
    (tmp_path / TOKEN).symlink_to("/etc/hostname")
    with pytest.raises(FedloomError, match="must be a file of yours"):
        read_token(tmp_path)
