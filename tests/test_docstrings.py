"""What an editor and the reference show: arguments of public names, and the head of each method's file.

An argument is described under ``Args:`` unless its name and type say it all, and no entry only repeats these: a line
that says "path: The path." is worse than none.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import EnumType
from pathlib import Path

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
    *("Algorithm", "FedAvg", "PredictionStage", "ChannelStep", "Sender", "Aggregator", "Adversary", "Attack"),
)
"""Classes whose methods users call, or override in their own parts."""
NO_LINK = ("There is no paper", "no public link known")


SAME_EVERYWHERE = {"seed", "clients", "client", "ids", "name", "path", "folder", "rounds", "model", "row", "rows"}
"""Arguments that mean the same wherever they occur."""
FILLERS = "a an the of its it this that is are in on for with by from which what and or one all each run"
TYPE_WORDS = {"int": "number", "float": "number", "str": "text name", "Path": "path file folder", "Tensor": "tensor"}
"""Words that a type says already."""


def entries(docstring: str) -> dict[str, str]:
    """The text about each argument under ``Args:`` in a docstring."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", inspect.cleandoc(docstring), re.MULTILINE)
    found = re.findall(r"^    \*{0,2}(\w+): (\S.*(?:\n        .*)*)", section[1], re.MULTILINE) if section else []
    return dict(found)


def words(text: str) -> set[str]:
    """The words of a text or of a name, without the s of a plural."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text)
    return {word.lower().rstrip("s") for word in re.findall(r"[A-Za-z]+", apart)}


def restates(argument: str, annotation: str, text: str) -> bool:
    """Whether the text about an argument has no word beyond its name and its type."""
    said = [more for kind, more in TYPE_WORDS.items() if re.search(rf"\b{kind}\b", annotation)]
    return words(text) <= words(" ".join([argument, annotation, *said, FILLERS]))


def is_plain(argument: str, annotation: str, docstring: str) -> bool:
    """Whether an argument needs no words: its type names it, the text before ``Args:`` does, or it is usual."""
    named = words(argument) <= words(annotation) | words(docstring.partition("Args:")[0])
    return named or argument in SAME_EVERYWHERE


def undocumented(subject: object, own: set[str]) -> set[str]:
    """The arguments of a function or a class that need words and have none, and the words about no argument."""
    docstring, signature = inspect.getdoc(subject) or "", inspect.signature(subject)  # type: ignore[arg-type]
    documented = set(entries(docstring))
    if isinstance(subject, EnumType):  # nobody calls it: users name its members
        return documented
    arguments = {one.name: str(one.annotation) for one in signature.parameters.values() if one.name not in own}
    missing = {one for one, kind in arguments.items() if one not in documented and not is_plain(one, kind, docstring)}
    return missing | (documented - set(arguments))


def described(tree: ast.AST) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """The name, the docstring and the annotations of each function and each class with fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            kinds = {one.arg: ast.unparse(one.annotation) if one.annotation else "" for one in named}
            yield node.name, ast.get_docstring(node) or "", kinds
        elif isinstance(node, ast.ClassDef):
            lines = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            yield (
                node.name,
                ast.get_docstring(node) or "",
                {str(ast.unparse(x.target)): ast.unparse(x.annotation) for x in lines},
            )


def restating(source: str) -> list[str]:
    """The entries of a file's docstrings that only repeat a name and a type."""
    return [
        f"{name}: {argument}: {text}"
        for name, docstring, kinds in described(ast.parse(source))
        for argument, text in entries(docstring).items()
        if argument in kinds and restates(argument, kinds[argument], text)
    ]


def test_no_entry_only_repeats_a_name_and_a_type() -> None:
    root = Path(fedloom.__file__).parent
    found = {
        str(path.relative_to(root)): lines
        for path in sorted(root.rglob("*.py"))
        if (lines := restating(path.read_text()))
    }
    assert not found, "leave the entry out, or say what the name and the type do not"


def test_an_entry_that_repeats_a_name_is_found() -> None:
    docstring = "Read.\n\n    Args:\n        path: The path.\n        most: Lines that are read.\n    "
    source = f'def f(path: Path, most: int):\n    """{docstring}"""'
    assert restating(source) == ["f: path: The path."]


def test_the_reference_has_every_public_name_once() -> None:
    assert not sorted(set(public_names()) - set(REFERENCE)), "add `::: NAME` to a page of docs/reference"
    assert len(REFERENCE) == len(set(REFERENCE))


@pytest.mark.parametrize("name", REFERENCE)
def test_public_names_document_their_arguments(name: str) -> None:
    subject = public_object(name)
    if not inspect.isclass(subject) and not inspect.isfunction(subject):
        return  # a constant or the name of a type
    assert subject.__doc__, f"{name} has no docstring"
    if not inspect.isclass(subject) or not issubclass(subject, Exception):
        assert not undocumented(subject, set()), f"{name}: `Args:` and the signature differ"


@pytest.mark.parametrize("name", USED_OR_OVERRIDDEN)
def test_what_users_call_or_override_documents_its_arguments(name: str) -> None:
    for method, subject in vars(getattr(fedloom, name)).items():
        function = getattr(subject, "__func__", subject)  # of a static method
        if not inspect.isfunction(function) or (method.startswith("_") and method != "__call__"):
            continue
        assert not undocumented(function, {"self"}), f"{name}.{method}: `Args:` and the signature differ"


@pytest.mark.parametrize("kind", METHODS.values(), ids=list(METHODS))
def test_a_method_s_file_opens_with_formula_paper_and_settings(kind: type[Algorithm]) -> None:
    head = sys.modules[kind.__module__].__doc__ or ""
    assert re.search(r"``[^`]*(<-|=|\+)[^`]*``", head), "no formula in double backquotes"
    assert "https://" in head or any(words in head for words in NO_LINK), "neither a link nor a word that there is none"
    settings = {field.name for field in fields(kind)}
    assert settings or "no settings" in " ".join(head.split()), "neither settings nor a word that there are none"
    assert set(entries(kind.__doc__ or "")) == settings
