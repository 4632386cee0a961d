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
        flows: list[Flow] = []
        for file in sorted(entry for entry in folder.iterdir() if entry.suffix.lower() in (".json", ".bpmn")):
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
        if flows:
            organisations.append(Organisation(folder.name, tuple(flows)))
    if dialect is None:
        raise FedloomError(f"{home} has no sub-folder with .json or .bpmn files: make one for each organisation.")
    return Corpus(tuple(organisations), dialect, home.name)
