"""Reading a corpus of flows: a folder with one sub-folder per organisation, or a packed ``.npz`` file."""

from __future__ import annotations

from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.formats.packed_corpus import read_packed
from fedloom.tasks.flows.formats.read_flow import read_flow
from fedloom.tasks.flows.formats.real_corpora import BPMN_FILE, N8N_FILE, read_bpmn, read_n8n
from fedloom.tasks.flows.rules import Dialect, validate

FLOW_ENDINGS = (".json", ".bpmn", ".xml")
_ENDINGS = ", ".join(FLOW_ENDINGS)
MOST_FILES = 200_000
"""The most flow files that a folder may have."""


def read_corpus(path: str | Path) -> Corpus:
    """Read a packed corpus: one of the two real ones, known by their file names, or one that `write_packed` wrote."""
    path = Path(path)
    real = {N8N_FILE: read_n8n, BPMN_FILE: read_bpmn}
    return real[path.name](path.parent) if path.name in real else read_packed(path)


def read_folder(path: str | Path) -> Corpus:
    """Read a user's corpus: a folder with a sub-folder of flow files per organisation, or a packed ``.npz``."""
    home = Path(path).expanduser()
    if home.is_file():
        return read_packed(home)
    if not home.is_dir():
        raise FedloomError(f"{home} does not exist: name a folder with a sub-folder of flow files per organisation.")
    organisations: list[Organisation] = []
    dialect: Dialect | None = None
    for folder in sorted(entry for entry in home.iterdir() if entry.is_dir()):
        if flow_files(folder):
            flows, dialect = read_flows(folder, dialect)
            organisations.append(Organisation(folder.name, flows))
    if dialect is None:
        raise FedloomError(f"{home} has no sub-folder with {_ENDINGS} files: make one for each organisation.")
    return Corpus(tuple(organisations), dialect, home.name)


def read_flows(folder: Path, dialect: Dialect | None = None) -> tuple[tuple[Flow, ...], Dialect]:
    """Read the flows of one organisation, in the order of their files' names, and check them against the rules.

    Args:
        folder: A folder of flow files, also in sub-folders.
        dialect: The dialect that all flows must have; None is that of the first one.

    Returns:
        The flows and their dialect.
    """
    if not folder.is_dir():
        raise FedloomError(f"{folder} is not a folder: name a folder of flow files ({_ENDINGS}).")
    flows: list[Flow] = []
    for file in flow_files(folder):
        flow, its_dialect = read_flow(file)
        dialect = its_dialect if dialect is None else dialect
        if its_dialect != dialect:
            raise FedloomError(
                f"{file} has the dialect '{its_dialect.name}', the files before it have '{dialect.name}': all "
                "flows of a corpus must have one dialect."
            )
        try:
            validate(flow, dialect)
        except FedloomError as error:
            raise FedloomError(f"{file}: {error}") from None
        flows.append(flow)
    if dialect is None or not flows:
        raise FedloomError(f"{folder} has no flow files ({_ENDINGS}): put the exported flows there.")
    return tuple(flows), dialect


def flow_files(folder: Path) -> list[Path]:
    """The flow files of a folder and its sub-folders, by name; more than any organisation has are refused."""
    found: list[Path] = []
    for path in folder.rglob("*"):
        if path.suffix.lower() in FLOW_ENDINGS and path.is_file():
            found.append(path)
        if len(found) > MOST_FILES:
            raise FedloomError(f"{folder} has more than {MOST_FILES:,} flow files: name a smaller folder.")
    return sorted(found, key=lambda path: path.relative_to(folder).parts)
