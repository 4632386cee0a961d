"""The texts in the folders of a deployment: a README each, comments in the settings, a start script.

The reader knows their data and their machine, and need not know federated learning.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from datetime import datetime

import tomli_w

import fedloom
from fedloom.deploy.settings import ServerSettings, Settings, SiteSettings

SERVER_NOTES = {
    "sites": "The training sites, in the order of their client numbers. Change it with fedloom deploy add.",
    "evaluator": "A site that only evaluates the shared model on its own data and never trains.",
    "host": "The name or address by which sites reach this machine; server.pem is made for it.",
    "port": "The port that sites connect to; nginx.conf and each site.toml have it too.",
    "control_port": "The SuperLink's own port, on this machine only. Never open it to others; nginx.conf has it too.",
    "proxy": "Whether sites connect through nginx, which requires their certificates.",
    "deadline": "Seconds in which sites must answer, per exchange.",
    "join_timeout": "Seconds to wait for the sites to connect before the first round.",
    "reconnect_timeout": "Seconds that a site without a connection is waited for when all others have answered.",
    "min_clients": "The fewest sites that make a valid round.",
    "retries": "How often a round with too few answers is repeated before the run stops.",
    "max_megabytes": "The largest accepted message of a site; the limit in nginx.conf follows from it.",
    "max_waiting": "How many of its largest messages a site may have waiting in this server's memory.",
    "max_calls": "The most calls of a site per second, on average over five; nginx refuses the others.",
    "max_norm": "The largest distance between a site's model and the one it was sent; others are dropped.",
    "max_ratio": "How many times as large as usual what a site sends may be; what is larger is dropped.",
    "clip_ratio": "How many times as large as usual a change of weights may be; what is larger counts with the usual "
    "size.",
    "clip_against": "How many times the usual size a change of weights may move against the other sites; what moves "
    "further counts with the usual size.",
    "sizes": "The most training samples of some sites, if you know them: west = 1000000. Without it, a claim of more "
    "than 1,000 times the median of the others counts as that median.",
    "max_share": "The largest share of all training samples that one of three or more sites may count with; 1.0 for "
    "any, as in the simulation.",
    "max_samples": "The most training samples that a site may announce.",
    "cross_site": "Whether every site's model is evaluated on every site's data at the end; models then leave, and "
    "every site must allow it (model = true in [policy] of its site.toml).",
}
SITE_NOTES = {
    "name": "This site's name and number in the federation. Do not change them: the server needs them.",
    "server": "The address of the server.",
    "policy": "What this site takes part in and what may leave it. The site itself checks every request against it, "
    "refuses the others, and writes them to policy.jsonl.",
    "runs": "Only these runs, by the digest or the name that fedloom deploy explain shows.",
    "methods": "Only these methods.",
    "rounds": "The most rounds, counted here, over all new runs too (not set: as many as each run has).",
    "new_runs": "In how many new runs of the same plan this site takes part (the operator begins one with run --new).",
    "repeats": "How often a round may be asked for again (not set: as often as the run has rounds, or 20 times).",
    "turns": "How often this site may be asked to train within one round (not set: as often as the method declares).",
    "updates": "Whether what this site trains may leave.",
    "evaluation": "Whether scores of models on this site's data may leave.",
    "model": "Whether the model that this site predicts with may leave (cross_site of the server needs it everywhere).",
    "tensors": "Which tensors may leave, by method (not set: all that the method declares).",
    "channel": "Steps that an update must go through here before it leaves, with bounds of their settings.",
    "data": "Where this site's data are.",
    "rehearsal": "true: use a share of the simulated data instead of this site's own, to try everything out.",
    "path": "This site's data: a CSV, TSV, NPZ or parquet file, a folder of images (a folder per class), a graph, or a "
    "folder of flows.",
    "target": "The column to predict.",
    "ignore": "Columns to leave out, for instance a patient number.",
    "salt": "For methods whose sites share nodes of a graph: a secret that the sites agree on. Do not tell the server.",
}
_UNSET = {
    "evaluator": '"site-x"',
    "max_norm": "10.0",
    "path": '"data.csv"',
    "runs": '["fedavg on own"]',
    "methods": '["fedavg", "fedprox"]',
    "rounds": "100",
    "repeats": "5",
    "turns": "1",
    "tensors": '{ scaffold = ["change"] }',
    "channel": '[{ name = "topk", most = { fraction = 0.1 } }]',
}
"""Settings that are unset by default, with example values."""


def server_toml(settings: ServerSettings) -> str:
    """``deploy.toml``, with a comment above every setting."""
    return _with_comments(settings, SERVER_NOTES)


def site_toml(settings: SiteSettings) -> str:
    """``site.toml``, with a comment above every setting."""
    return _with_comments(settings, SITE_NOTES)


def _with_comments(settings: Settings, notes: Mapping[str, str]) -> str:
    return "\n".join(_section(settings, notes)) + "\n"


def _section(settings: Settings, notes: Mapping[str, str], prefix: str = "") -> list[str]:
    """The lines of a section, a comment above each setting, and then of the sections in it."""
    lines, sections, plain = list[str](), list[str](), settings.model_dump(mode="python", exclude_none=True)
    for name in type(settings).model_fields:
        value, note = getattr(settings, name), [f"# {notes[name]}"] if name in notes else []
        if isinstance(value, Settings):
            sections += ["", *note, f"[{prefix}{name}]", *_section(value, notes, f"{prefix}{name}.")]
        elif isinstance(value, dict):
            sections += ["", *note, *tomli_w.dumps({f"{prefix}{name}": plain[name]}).replace('"', "", 2).splitlines()]
        else:
            shown = f"# {name} = {_UNSET[name]}" if value is None else tomli_w.dumps({name: plain[name]}).rstrip()
            lines += [*note, *shown.splitlines()]
    return lines + sections


def start_script(role: str, what: str) -> str:
    """A shell script that starts a participant, wherever its folder is."""
    return f"""\
#!/bin/sh
# Starts {what}, which runs until it is stopped with Ctrl-C.
cd -- "$(dirname -- "$0")" || exit 1
exec fedloom deploy {role} .
"""


def server_readme(settings: ServerSettings, until: datetime) -> str:
    """The README for the operator."""
    everyone = settings.everyone
    door = (
        f"Open port {settings.port} of this machine to the sites, and no other. Port {settings.control_port} must stay "
        "closed: it is for nginx alone. Sites connect through nginx (nginx.conf), which requires "
        "their certificates and passes on only their calls; proxy/access.log lists who connected and who was refused."
    )
    bare = (
        f"There is no proxy (proxy = false): anyone who can reach port {settings.port} can send calls of nodes to "
        "it. Let only the sites' machines reach it, for instance in a private network."
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
    fedloom deploy run .        # in another window: trains; repeat it after a stop to continue
    fedloom deploy status .     # which sites are connected
    fedloom deploy stop .

The results of the run are in the folder `run`. Deadlines and limits are in `deploy.toml`. Each site has a policy of its
own, and may refuse what you ask; the reason is then in `fedloom deploy status .`. With `cross_site = true` every site
must allow its model to leave (`model = true` in its policy).

## Network

{door if settings.proxy else bare}

## Keep secret

`server.key` (mode 600). It stays on this machine. The folder `authority`, beside this one where it was made, has the
key that signs all certificates: keep it off this machine if you can. `keys` has the sites' public keys only.

## Certificates and sites

The certificates expire on {until:%Y-%m-%d}; a warning begins a month before. Where the folder `authority` is:

    fedloom deploy renew                # new certificates for everyone, with the same keys
    fedloom deploy add {everyone[0]}    # a new site, or one that was revoked

Copy the changed `server` folder here; a running server takes it within seconds. Here, in this folder, at any time:

    fedloom deploy revoke {everyone[0]} .    # refuse a site at once, if its keys may have leaked

To start the server with the machine: `fedloom.service` is a systemd unit and says how it is installed.
""")


def site_readme(settings: SiteSettings, method: str, until: datetime, evaluates: bool, own_keys: bool = False) -> str:
    """The README for the person at a site, who may have made its keys."""
    keys = (
        "This folder has no private key: the site made its own. Copy these files into the folder of "
        "`fedloom deploy request`, beside its keys, and make sure that only you can read them:"
        if own_keys
        else "Copy this folder to the machine, and make sure that only you can read its keys:"
    )
    work = (
        "evaluates the shared model on your data. It never trains"
        if evaluates
        else "trains a model together with other sites, each on its own data"
    )
    data = (
        "This is a rehearsal: `rehearsal = true` in `site.toml` uses a share of simulated data instead of yours. To "
        "use your own, set it to false and add their path:"
        if settings.data.rehearsal
        else "Write the path of your data and the column to predict into `site.toml`:"
    )
    leaves = (
        "the number of your samples, and the scores of the model on them"
        if evaluates
        else f"what the method ({method}) sends: model parameters or other numbers computed from your data, the "
        "number of your samples, and the scores of the model on them"
    )
    return _wrap(f"""\
# The folder of {settings.name}

With this folder, your machine takes part in a federation: it {work}.
Your data stay on your machine; the server at {settings.server} never sees them.

## Install

    pip install 'fedloom[deploy]=={fedloom.__version__}'

{keys}

    chmod 600 client.key node.key

## Your data

{data}

    [data]
    rehearsal = false
    path = "data.csv"       # relative to this folder, or a full path
    target = "label"
    ignore = []             # columns to leave out

The data must have the columns and classes that `schema.json` lists. They are checked at the start; an error
names the column that does not fit.

## Start

    ./start.sh

Keep it running. Your machine connects to the server; nobody can connect to your machine, and no port need be open.
You can stop it (Ctrl-C) and start it again at any time: it continues where it was. To start it with the machine:
`fedloom.service` is a systemd unit and says how it is installed.

## Does it work?

The window shows when this site is connected to the server. If something is wrong, it shows what: an expired
certificate, a server that cannot be reached, a missing column.

## What leaves this machine

Only {leaves}. When it connects, also its name and the versions of
its programs. `fedloom deploy explain .` lists every message with its size. No code from the network is run here.

You decide what may leave and what this site takes part in: `[policy]` in `site.toml`. Your machine checks every
request against it, refuses what goes beyond it, and writes that to `policy.jsonl`. The model that your site predicts
with stays here unless you set `model = true`; an evaluation of all models at all sites (`cross_site`) needs that at
every site. Rounds are counted in `asked.json`, also over restarts: once those of the run are over, nobody can train
your site further in it or replace its model. The operator may begin new runs of the same plan, each with as many
rounds: `new_runs` says in how many your site takes part, and `rounds`, if you set it, counts over all of them.
If there is an `approver.pem` in this folder, a new run also needs the signature of that approver, which your machine
checks; `approved.json` has the runs that it began so.

## Keep secret

`client.key` and `node.key` identify your site: anyone who has them can act as {settings.name}. They stay in this
folder, on this machine; nobody needs a copy, not even the server. If someone may have seen them, report it at once.

## Contact

The person who gave you this folder. `signature.json` is their signature of it, which is checked at every start:
`fedloom deploy status .` shows the fingerprint of their key, and theirs must be the same; compare it by telephone.

The certificates expire on {until:%Y-%m-%d}. The window warns you a month before; a site that runs gets renewed
ones from its server, or the operator sends `client.pem`, `ca.crt` and `signature.json`.
""")


def authority_readme(until: datetime) -> str:
    """The README beside the key that signs all certificates."""
    return f"""\
# The authority's folder

`ca.key` signed the certificates of this deployment. Anyone who has it can act as the server or as any site: keep it
offline and give it to nobody. The deployment runs without it; `fedloom deploy renew` and `fedloom deploy add` need it.
`signed` has copies of what was signed for each site. The authority is valid until {until:%Y-%m-%d}.
"""


def _wrap(text: str) -> str:
    """A text with its paragraphs wrapped to 100 columns."""
    window = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False)
    blocks = text.strip().split("\n\n")
    return "\n\n".join(block if block[0] in " #" else window.fill(block) for block in blocks) + "\n"


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
