"""What sites can only rehearse is refused when the folders are made, in one sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.data.tables.schema import DataSchema
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.deployability import own_data_error
from fedloom.deploy.provision.folders import init
from fedloom.deploy.settings import SiteData, SiteSettings
from fedloom.registry.kinds import METHODS
from support.local_transport import NAMES, TINY

DIGITS = TINY["task"]
REHEARSED = {
    "clients on global": ({"clients_on_global": True}, "clients_on_global = true"),
    "withheld class": ({"task": {**DIGITS, "withhold": {"label": 3, "clients": [0]}}}, "task.withhold"),
    "adversary": ({"adversary": {"name": "signflipping", "clients": [1]}}, "real sites would do it"),
    "pooled words": (
        {"task": {"name": "flows", "clients": 3, "options": {"largest": 600}, "model_options": {"width": 8}}},
        "takes its words from the flows of all organisations",
    ),
}
"""Runs that can only be rehearsed, and why."""
REFUSED = {
    "centralised": "all clients' data in one place",
    "fedbn": "without BatchNorm",
    "fedgala": "has no graphs",
    "fedgalap": "has no graphs",
    "fedharm": "names none",
    "fedhybridavglg": "the largest client has",
    "fedhybridavglgdual": "the largest client has",
}
"""Methods that this small task of images does not suit."""


@pytest.mark.parametrize(("changes", "why"), REHEARSED.values(), ids=REHEARSED)
def test_what_can_only_be_rehearsed_is_refused_at_init(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    run = {**TINY, **changes}
    (tmp_path / "run.toml").write_bytes(tomli_w.dumps(run).encode())
    with pytest.raises(FedloomError) as refusal:
        init(tmp_path / "run.toml", tmp_path / "deploy", NAMES)
    sentence = str(refusal.value)
    assert why in sentence
    assert sentence.endswith(", or give --rehearsal to try the deployment out on the run file's data.")
    assert "\n" not in sentence
    assert not (tmp_path / "deploy").exists()
    blueprint = Blueprint.of(resolve(run), NAMES)  # as a rehearsal, and as a site that sets it to false
    with pytest.raises(FedloomError, match=r"site north: .*make the deployment again"):
        blueprint.site_task(SiteSettings(name="north", client=0, data=SiteData(path="x.npz")), tmp_path)
    assert len(init(tmp_path / "run.toml", tmp_path / "deploy", NAMES, rehearsal=True)) == 4


def test_words_without_a_list_cannot_be_numbered_by_a_site() -> None:
    words = DataSchema(kind="columns", sites=("a",), shape=(20,), dtype="int16", classes=10_004, symbols=True)
    config = resolve({**TINY, "task": {"name": "stackexchange"}})
    assert "no site can number its own" in str(own_data_error(config, words))
    characters = words.model_copy(update={"classes": 2, "class_names": ("a", "b")})
    assert own_data_error(config, characters) is None


EVERYTHING = {"valid_share": 0.1, "communal_per_class": 1, "server_set": {"share": 0.1}}


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_either_takes_sites_own_data_or_says_why_not(method: str) -> None:
    run = resolve({**TINY, "task": {**DIGITS, **EVERYTHING}, "method": {"name": method}})
    if method in REFUSED:
        with pytest.raises(FedloomError, match=REFUSED[method]):
            Blueprint.of(run, NAMES)
    else:
        blueprint = Blueprint.of(run, NAMES)
        assert own_data_error(blueprint.config, blueprint.schema) is None
