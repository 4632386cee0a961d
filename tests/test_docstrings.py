"""What an editor and the reference show: arguments of public names, and the head of each method's file."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields

import pytest

import fedloom
from fedloom.core.algorithm import Algorithm
from fedloom.registry.kinds import METHODS
from support.paths import DOCS
from support.public_names import public_names, public_object


def names_in(page: str) -> list[str]:
    """The names that a page of the reference describes."""
    return re.findall(r"^::: (\S+)$", page, re.MULTILINE)


REFERENCE = [name for page in sorted((DOCS / "reference").glob("*.md")) for name in names_in(page.read_text())]
USED_OR_OVERRIDDEN = (
    *("History", "Federation", "Ragged", "Cohort", "Message", "Reply", "Replies", "Wave", "ServerContext", "Pool"),
    *("Algorithm", "FedAvg", "PredictionStage", "ChannelStep", "Sender", "Aggregator", "Adversary"),
)
"""Classes whose methods users call, or override in their own parts."""
NO_LINK = ("There is no paper", "no public link known")


def documented_arguments(docstring: str) -> set[str]:
    """The names under ``Args:`` in a docstring."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", inspect.cleandoc(docstring), re.MULTILINE)
    return set(re.findall(r"^    \*{0,2}(\w+): \S", section[1], re.MULTILINE)) if section else set()


def test_the_reference_has_every_public_name_once() -> None:
    assert not sorted(set(public_names()) - set(REFERENCE)), "add `::: NAME` to a page of docs/reference"
    assert len(REFERENCE) == len(set(REFERENCE))


@pytest.mark.parametrize("name", REFERENCE)
def test_public_names_document_their_arguments(name: str) -> None:
    subject = public_object(name)
    if not inspect.isclass(subject) and not inspect.isfunction(subject):
        return  # a constant or the name of a type
    assert subject.__doc__, f"{name} has no docstring"
    is_error = inspect.isclass(subject) and issubclass(subject, Exception)
    arguments = set() if is_error else set(inspect.signature(subject).parameters)
    assert documented_arguments(subject.__doc__) == arguments, f"{name}: `Args:` and the signature differ"


@pytest.mark.parametrize("name", USED_OR_OVERRIDDEN)
def test_what_users_call_or_override_documents_its_arguments(name: str) -> None:
    for method, subject in vars(getattr(fedloom, name)).items():
        function = getattr(subject, "__func__", subject)  # of a static method
        if not inspect.isfunction(function) or (method.startswith("_") and method != "__call__"):
            continue
        arguments = set(inspect.signature(function).parameters) - {"self"}
        documented = documented_arguments(function.__doc__ or "")
        assert documented == arguments, f"{name}.{method}: `Args:` and the signature differ"


@pytest.mark.parametrize("kind", METHODS.values(), ids=list(METHODS))
def test_a_method_s_file_opens_with_formula_paper_and_settings(kind: type[Algorithm]) -> None:
    head = sys.modules[kind.__module__].__doc__ or ""
    assert re.search(r"``[^`]*(<-|=|\+)[^`]*``", head), "no formula in double backquotes"
    assert "https://" in head or any(words in head for words in NO_LINK), "neither a link nor a word that there is none"
    settings = {field.name for field in fields(kind)}
    assert settings or "no settings" in " ".join(head.split()), "neither settings nor a word that there are none"
    assert documented_arguments(kind.__doc__ or "") == settings
