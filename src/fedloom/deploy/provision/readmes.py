"""What the folders of a deployment say to the people who get them: a README each, comments in the settings, a starter.

Plain words: the reader knows their data and their machine, and need not know federated learning.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from datetime import datetime

import fedloom
from fedloom.deploy.settings import ServerSettings, Settings, SiteSettings, to_toml

SERVER_NOTES = {
    "sites": "The training sites, in the order of their client numbers. Do not change it: make the folders anew.",
    "evaluator": "A site that only scores the shared model on its own data and never trains.",
    "host": "The name or address by which sites find this machine; server.pem is made for it.",
    "port": "The port that sites reach; nginx.conf and each site.toml name it too.",
    "control_port": "The SuperLink's own port, on this machine only. Never open it to others; nginx.conf names it too.",
    "proxy": "Whether sites go through nginx, which asks for their certificates and passes on nothing but their work.",
    "deadline": "Seconds that sites have to answer in, per exchange.",
    "join_timeout": "Seconds to wait for the sites to connect before the first round.",
    "min_clients": "The fewest sites with which a round counts.",
    "retries": "How often a round with too few answers is tried again before the run stops.",
    "max_megabytes": "The largest message that is taken from a site; nginx.conf has a limit that follows from it.",
    "max_norm": "How far a site's model may lie from the one it was sent; farther ones are dropped.",
    "max_samples": "The most training samples that a site may say it has.",
    "cross_site": "Whether every site's model is scored on every site's data at the end; models then leave.",
}
SITE_NOTES = {
    "name": "This site's name and number in the federation. Do not change them: the server knows the site by them.",
    "server": "Where the server is.",
    "port": "A free port of this machine, used inside it only. Change it if something else has it.",
    "rehearsal": "true: a share of the simulated data stands in for this site's own, for trying everything out.",
    "path": "This site's data: a CSV, TSV, NPZ or parquet file, a folder of images (a folder per class), or a graph.",
    "target": "The column to predict.",
    "ignore": "Columns to leave out, for instance a patient's number.",
}
_UNSET = {"evaluator": '"site-x"', "max_norm": "10.0", "path": '"data.csv"'}
"""Settings that are unset by default, with a value for the example."""


def server_toml(settings: ServerSettings) -> str:
    """``deploy.toml``, with a comment above every setting."""
    return _with_comments(settings, SERVER_NOTES)


def site_toml(settings: SiteSettings) -> str:
    """``site.toml``, with a comment above every setting."""
    return _with_comments(settings, SITE_NOTES)


def _with_comments(settings: Settings, notes: Mapping[str, str]) -> str:
    lines, seen = [], set()
    for line in to_toml(settings).decode().splitlines():
        key = re.match(r"(\w+) = ", line)
        if key and key[1] in notes:
            lines.append(f"# {notes[key[1]]}")
            seen.add(key[1])
        lines.append(line)
    for name in notes:
        if name not in seen:
            lines += [f"# {notes[name]}", f"# {name} = {_UNSET[name]}"]
    return "\n".join(lines) + "\n"


def start_script(role: str, what: str) -> str:
    """A shell script that starts a participant from wherever its folder lies."""
    return f"""\
#!/bin/sh
# Starts {what}, which runs until it is stopped with Ctrl-C.
cd -- "$(dirname -- "$0")" || exit 1
exec fedloom deploy {role} .
"""


def server_readme(settings: ServerSettings, until: datetime) -> str:
    """For the operator."""
    everyone = settings.everyone
    door = (
        f"Open port {settings.port} of this machine to the sites, and no other. Port {settings.control_port} must stay "
        "closed: whoever reaches it can submit runs. Sites come in through nginx (nginx.conf), which asks for their "
        "certificates and passes on nothing but their work; proxy/access.log says who called and who was refused."
    )
    bare = (
        f"There is no proxy (proxy = false): whoever reaches port {settings.port} and has ca.crt can register sites "
        "and submit runs. Let only the sites' machines reach it, for instance in a private network."
    )
    needs = f"    pip install 'fedloom[deploy]=={fedloom.__version__}'" + (
        "\n\nand nginx, from your system's packages." if settings.proxy else ""
    )
    return _wrap(f"""\
# The server's folder

The server coordinates the training of {len(settings.sites)} sites. It has no site's data: it sends requests to the
sites, receives what the method sends, and combines it. {_join_names(everyone)} each have a folder of their own; give
each folder to its site only, over a confidential channel.

## Install

{needs}

## Start

    ./start.sh                  # keep it running
    fedloom deploy run .        # in another window: trains; the same command goes on after a stop
    fedloom deploy status .     # which sites are connected
    fedloom deploy stop .

What the run measured is in the folder `run`. Deadlines and limits are in `deploy.toml`.

## Network

{door if settings.proxy else bare}

## Keep secret

`server.key` (mode 600). It stays on this machine. The folder `authority`, beside this one where it was made, has the
key that signs for everybody: keep it off this machine if you can. `keys` has the sites' public keys only.

The certificates end on {until:%Y-%m-%d}; make the folders anew with `fedloom deploy init` before then.
""")


def site_readme(settings: SiteSettings, method: str, until: datetime, evaluates: bool) -> str:
    """For the person at a site."""
    work = (
        "scores the shared model on your data. It never trains"
        if evaluates
        else "trains a model together with other sites, each on its own data"
    )
    data = (
        "This is a rehearsal: `rehearsal = true` in `site.toml` lets a share of simulated data stand in for yours. To "
        "use your own, set it to false and write their place beside it:"
        if settings.data.rehearsal
        else "Write into `site.toml` where your data are and which column is to be predicted:"
    )
    leaves = (
        "how many samples you have, and the scores of the model on them"
        if evaluates
        else f"what the method ({method}) sends: model parameters or other numbers computed from your data, how many "
        "samples you have, and the scores of the model on them"
    )
    return _wrap(f"""\
# The folder of {settings.name}

With it, a machine of yours takes part in a federation: it {work}.
Your data stay on your machine; the server at {settings.server} never sees them.

## Install

    pip install 'fedloom[deploy]=={fedloom.__version__}'

Copy this folder to the machine, and see that only you can read its secrets:

    chmod 600 client.key node.key

## Your data

{data}

    [data]
    rehearsal = false
    path = "data.csv"       # relative to this folder, or a full path
    target = "label"
    ignore = []             # columns to leave out

The data must have the columns and classes that `schema.json` lists. They are checked at the start, and what does not
fit is said in words, with the column's name.

## Start

    ./start.sh

Keep it running. The machine calls the server; nobody can call the machine, and you need to open no port. It may be
stopped (Ctrl-C) and started again at any time: it goes on where it was.

## Does it work?

The window says what was found in your data, and then that this site is connected to the server. If something is wrong
it says what: a certificate that ended, a server that cannot be reached, a column that is missing.

## What leaves this machine

Nothing but {leaves}. Besides, when it connects: its name, and the versions of
its programs. `fedloom deploy explain config.toml` lists every message with its size. No program that comes from
elsewhere is run here.

## Keep secret

`client.key` and `node.key` say who you are: whoever has them can pass for {settings.name}. They stay in this folder, on
this machine; nobody needs a copy, not even the server. If you think that someone has seen them, say so at once.

## Whom to tell

The person who gave you this folder. The certificates end on {until:%Y-%m-%d}; you will get a new folder before then.
""")


def authority_readme(until: datetime) -> str:
    """For the operator, beside the key that signs for everybody."""
    return f"""\
# The authority's folder

`ca.key` signed the certificates of this deployment. Whoever has it can pass for the server or for any site: keep it
off the network, give it to nobody. No program needs it to run the deployment. It is valid until {until:%Y-%m-%d}.
"""


def _wrap(text: str) -> str:
    """A text whose paragraphs fit a window, whatever names are in them."""
    window = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False)
    blocks = text.strip().split("\n\n")
    return "\n\n".join(block if block[0] in " #" else window.fill(block) for block in blocks) + "\n"


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
