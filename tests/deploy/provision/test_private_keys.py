"""The package that makes keys may be missing: one sentence names the extra, whatever needed it first."""

from __future__ import annotations

import importlib
import sys

import pytest

from fedloom.core.errors import FedloomError

pytest.importorskip("cryptography", reason="cryptography is not installed: nothing is imported")

from fedloom.deploy import provision


@pytest.mark.parametrize("name", ["private_keys", "authority", "key_request", "signature", "folders"])
def test_without_the_package_one_sentence_names_the_extra(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for module in [module for module in sys.modules if module.startswith(provision.__name__)]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(FedloomError, match=r"pip install 'fedloom\[deploy\]'"):
        importlib.import_module(f"{provision.__name__}.{name}")
