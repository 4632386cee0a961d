"""What must agree between server and site for the same numbers, and what may differ."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import get_args

import pytest
import torch

import fedloom
from fedloom.data.tables.schema import DataSchema
from fedloom.deploy.protocol.blueprint import NOT_SHARED
from fedloom.deploy.protocol.versions import PROTOCOL, Versions
from fedloom.deploy.protocol.wire import RequestKind, SiteAnswer, SiteRequest
from fedloom.files.formats import MESSAGE
from support.local_transport import blueprint

HERE = Versions("0.7.0", 3, "2.13.0")


@pytest.mark.parametrize("version", ["0.7.1", "0.8.0", "0.6.5"])
def test_another_version_of_the_same_protocol_may_take_part_and_is_named(version: str) -> None:
    site = replace(HERE, fedloom=version)
    assert site.refusal(HERE, "it") == ""
    assert site.difference(HERE).startswith(f"runs fedloom {version}, and the server 0.7.0 (")


def test_the_same_versions_are_nothing_to_speak_of() -> None:
    assert (HERE.refusal(HERE, "it"), HERE.difference(HERE)) == ("", "")


@pytest.mark.parametrize("protocol", [2, 4, 0])
def test_another_protocol_is_refused_also_of_the_same_version(protocol: int) -> None:
    said = replace(HERE, protocol=protocol).refusal(HERE, "this site")
    spoken = f"protocol {protocol}" if protocol else "no protocol with a number"
    assert said == (
        f"this site runs fedloom 0.7.0 ({spoken}), but the server runs 0.7.0 (protocol 3): pip install "
        "'fedloom[deploy]==0.7.0' there, or upgrade the server."
    )


def test_another_release_of_torch_is_refused_and_another_build_is_named() -> None:
    assert replace(HERE, torch="2.13.1+cpu").refusal(replace(HERE, torch="2.13.0+cu130"), "it") == (
        "it has torch 2.13.1+cpu, but the server has 2.13.0+cu130, which may round differently: pip install "
        "torch==2.13.0 there."
    )
    other = replace(HERE, torch="2.13.0+cpu")
    assert other.refusal(HERE, "it") == ""
    assert other.difference(HERE) == "runs torch 2.13.0+cpu, and the server 2.13.0 (the same release)"


@pytest.mark.parametrize("protocol", [None, True, -1, "3", 3.0, [3]])
def test_only_a_number_is_a_protocol(protocol: object) -> None:
    assert Versions.said("0.7.0", protocol, "2.13.0").protocol == 0


def test_this_process_says_its_own() -> None:
    assert Versions.here("2.13.0+cpu") == Versions(fedloom.__version__, PROTOCOL, "2.13.0+cpu")
    assert Versions.here().torch.partition("+")[0] == str(torch.__version__).partition("+")[0]


PINNED = {1: ("9cb303618234af0a", "04ca24becae8bb74")}
"""By protocol: digests of what is said on the wire, and of what a plan's digest is made of."""


def test_what_is_said_on_the_wire_and_what_a_plan_is_called_belong_to_the_protocol() -> None:
    """If this fails and a release has spoken ``PROTOCOL``, raise it; then write the new digests down here.

    A plan's digest has every setting of a run with its default, so a new setting calls the plan by another name: sites
    of before it would be refused as if they had the folder of another run.
    """
    headers = [
        [(name, str(one.annotation), str(one.default)) for name, one in header.model_fields.items()]
        for header in (SiteRequest, SiteAnswer)
    ]
    said = [headers, get_args(RequestKind), MESSAGE.version]
    plain = blueprint()._plain()
    called = [{key: plain[key] for key in plain.keys() - set(NOT_SHARED)}, sorted(DataSchema.model_fields)]
    assert (digest(said), digest(called)) == PINNED[PROTOCOL]


def digest(what: object) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]
