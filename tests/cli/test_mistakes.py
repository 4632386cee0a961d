"""Forty plausible mistakes per command that takes the settings of a run, and many for the others.

Each ends in one sentence that names what is wrong, with exit code 2, without a traceback and with nothing written.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedloom.cli.app import main

Try = Callable[[str], str]

RUNS = {
    "run": "run --method fedavg",
    "compare": "compare fedavg local --seeds 1",
    "sweep": "sweep --method fedprox --grid method.mu=0.1,1 --seeds 1",
    "advise": "advise --minutes 0.01",
}

SETTINGS = {
    "--task digit": "digit",
    "--task ''": "task",
    "--clients 0": "clients=0",
    "--clients -3": "clients=-3",
    "--clients 99999": "99999",
    "--clients two": "'two' is not a valid integer",
    "--clients 2.5": "'2.5' is not a valid integer",
    "--alpha -1": "alpha=-1",
    "--alpha nan": "alpha=nan",
    "--alpha abc": "'abc' is not a valid float",
    "--alpha 0.1 --partition iid": "--alpha 0.1 and --partition iid",
    "--partition 'shards(0)'": "per_client=0",
    "--partition 'nope(3)'": "nope",
    "--partition dirichlet": "alpha",
    "--partition 'shards(2'": "shards(2",
    "--model cnnn": "cnnn",
    "--model missing.py:Net": "missing.py",
    "--model syntax.py:Net": "syntax.py",
    "--model noclass.py:Net": "Net",
    "--model raises.py:Net": "boom",
    "--model notamodule.py:Net": "Net",
    "--epochs -1": "epochs=-1",
    "--batch-size -1": "batch_size=-1",
    "--lr 0": "lr=0",
    "--lr nan": "lr=nan",
    "--rounds 0": "rounds=0",
    "--rounds many": "'many' is not a valid integer",
    "--selection best": "best",
    "--fraction 0": "fraction=0",
    "--fraction 1.5": "fraction=1.5",
    "--number 0": "number=0",
    "--number 3 --fraction 0.5": "number",
    "--workers 0": "workers=0",
    "--seed -1": "seed=-1",
    "--execution fast": "fast",
    "--set nonsense": "nonsense",
    "--set local.momentum=high": "momentum",
    "--set local.nonsense=1": "nonsense",
    "--set rounds.x=1": "rounds",
    "--set task=3": "task",
    "--set local.optimizer=sgdd": "sgdd",
    "--set aggregation.name=medean": "medean",
    "--set task.metrics=f2": "f2",
    "--data missing.csv": "missing.csv",
    "--data empty.csv": "empty.csv",
    "--data head.csv": "head.csv",
    "--data nolabel.csv": "label",
    "--data ragged.csv": "ragged.csv",
    "--data inf.csv": "inf.csv",
    "--data bytes.csv": "bytes.csv",
    "--data bad.npz": "bad.npz",
    "--data junk": "junk",
    "--data good.csv --target nope": "nope",
    "--data good.csv --client-column nope": "nope",
    "--data good.csv --client-column label": "label",
    "--data good.csv --ignore nope": "nope",
    "--data good.csv --model cnn": "cnn",
    "--data one.csv": "one.csv",
    "--data good.csv --alpha 0.1": "client",
    "--data good.csv --kind numbers": "numbers",
    "--nonsense": "--nonsense",
    "--rounds": "--rounds",
}

OTHERS = {
    "run --method fedavgg": "fedavgg",
    "run --method fedprox:mu=x": "mu",
    "run --method fedprox:nu=1": "nu",
    "run --method ''": "method",
    "run --method fedavg --out ''": "it is empty",
    "run --method missing.py:M": "missing.py",
    "run --method syntax.py:M": "syntax.py",
    "run --method noclass.py:M": "M",
    "run --method fedavg+nope": "nope",
    "run missing.toml": "missing.toml",
    "run bad.toml": "bad.toml",
    "run odd.toml": "rondos",
    "run junk": "junk",
    "run a b c": "b c",
    "run --track nothing": "nothing",
    "run --engine rai": "rai",
    "run --clients 4 --new-clients -1": "new_clients=-1",
    "run --eval-every -1": "eval_every=-1",
    "run --out one.csv --rounds 1 --clients 2": "one.csv",
    "run --method fedprox:mu=nan": "mu=nan",
    "run --target y": "target=y is about your own data",
    "run --client-column who": "client_column=who",
    "run --ignore id": "ignore=",
    "run --workers 100000": "workers=100000",
    "run --model mlp:hidden=x": "hidden='x': give a value such as [200]",
    "run --model mlp:hidden=-1": "hidden=-1",
    "run --model ends.py:Net": "SystemExit",
    "run --model nets.py:Ends": "SystemExit",
    "run --model nets.py:Narrow": "gives 3 outputs, but 10 classes",
    "run --model nets.py:Several": "a dict of aux, logits",
    "run --model nets.py:Detached": "do not depend on a parameter that trains",
    "run --model nets.py:ListedParts": "ListedParts.parts",
    "run --set made_by=3": "made_by",
    "compare fedavg local --model nets.py:Narrow --clients 2 --rounds 1": "gives 3 outputs",
    "compare": "METHOD",
    "compare fedavg": "nothing to be compared with",
    "compare fedavgg local": "fedavgg",
    "compare fedavg local --seeds 0": "seeds=0",
    "compare fedavg local --seeds x": "'x' is not a valid integer",
    "compare fedavg local --config missing.toml": "missing.toml",
    "compare fedavg local --set seed=x": "seed='x'",
    "sweep --method fedprox": "--grid",
    "sweep --method fedprox --grid method.mu": "method.mu",
    "sweep --method fedprox --grid nope.mu=1,2": "nope",
    "sweep --method fedprox --grid method.nu=1,2": "nu",
    "sweep --method fedprox --grid method.mu=1,x": "mu",
    "sweep --method fedprox --grid method.mu=0.1,1 --seeds 0": "seeds=0",
    "advise --minutes 0": "minutes",
    "advise --minutes soon": "'soon' is not a valid float",
    "advise fedavg": "fedavg",
    "resume": "FOLDER",
    "resume missing": "missing",
    "resume junk": "junk",
    "resume one.csv": "one.csv",
    "report": "DIR",
    "report missing": "missing",
    "report junk": "junk",
    "predict": "FOLDER",
    "predict missing good.csv": "missing",
    "predict junk good.csv": "junk",
    "data nope": "nope",
    "data digits --clients 0": "clients=0",
    "data missing.csv": "missing.csv",
    "list nope": "nope",
    "list methods extra": "extra",
    "conform nope": "nope",
    "conform missing.py:M": "missing.py",
    "conform fedavg --like nope": "nope",
    "reproduce nope": "nope",
    "reproduce gala-cora --seeds 0": "seeds=0",
    "flows show missing.json": "missing.json",
    "flows show good.csv": "good.csv",
    "flows show bytes.csv": "bytes.csv",
    "flows recommend missing x.json": "missing",
    "flows generate --clients 0": "--out",
    "flows nope": "nope",
    "graphs split nope": "nope",
    "deploy init missing.toml": "--clients",
    "deploy init missing.toml --clients a,b": "missing.toml",
    "deploy init bad.toml --clients a,b": "bad.toml",
    "deploy init odd.toml --clients a,b": "rondos",
    "deploy explain missing.toml": "missing.toml",
    "deploy server missing": "missing",
    "deploy client junk": "junk",
    "deploy run junk": "junk",
    "deploy status junk": "junk",
    "deploy nope": "nope",
    "nope": "nope",
}


NETS = """
from torch import nn

class Narrow(nn.Linear):
    def __init__(self, inputs, width=3):
        super().__init__(inputs, width)

    def forward(self, x):
        return super().forward(x.flatten(1))

class Several(Narrow):
    def forward(self, x):
        return {"aux": x, "logits": super().forward(x)}

class Detached(Narrow):
    def forward(self, x):
        return super().forward(x).detach()

class Ends(Narrow):
    def __init__(self):
        raise SystemExit

class Batch(Narrow):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)

    def forward(self, x):
        if len(x) > 2:
            raise RuntimeError("too many")
        return super().forward(x)

class ListedParts(Batch):
    parts = ["weight"]
"""


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Try:
    """Type a command in a folder with broken files; return its one sentence."""
    rows = "\n".join(f"{i},{i * 2 % 7},{'xy'[i % 2]},{i % 3}" for i in range(60))
    texts = {
        "good.csv": f"a,b,label,client\n{rows}\n",
        "one.csv": "a,b,label\n" + "".join(f"{i},{2 * i},x\n" for i in range(30)),
        "empty.csv": "",
        "head.csv": "a,b,label\n",
        "nolabel.csv": "a,b\n1,2\n3,4\n",
        "ragged.csv": "a,b,label\n1,2,x\n1,x\n",
        "inf.csv": "a,b,label\n1,inf,x\n2,3,y\n3,4,x\n4,5,y\n",
        "bad.npz": "PK nonsense",
        "bad.toml": "rounds = = 3",
        "odd.toml": "rondos = 3\n",
        "syntax.py": "def f(:\n",
        "noclass.py": "x = 1\n",
        "raises.py": "raise RuntimeError('boom')\n",
        "notamodule.py": "class Net:\n    pass\n",
        "ends.py": "import sys\nsys.exit(0)\n",
        "nets.py": NETS,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.csv").write_bytes(bytes(range(256)))
    (tmp_path / "junk").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    def type_command(words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fedloom", *shlex.split(words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        assert end.value.code == 2, printed
        lines = [line for line in printed.err.splitlines() if line.strip()]
        assert len(lines) == 1, printed.err
        assert lines[0].startswith("error: ")
        assert lines[0].endswith((".", ")", "?"))
        assert printed.out == ""
        after = [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in path.parts]
        assert after == before, "something was written"
        return lines[0]

    return type_command


@pytest.mark.parametrize("mistake", SETTINGS)
@pytest.mark.parametrize("command", RUNS)
def test_a_wrong_setting_is_one_sentence_in_every_command(attempt: Try, command: str, mistake: str) -> None:
    small = "" if "--clients" in mistake or "--data" in mistake else " --clients 4"
    rounds = "" if "--rounds" in mistake else " --rounds 1"
    assert SETTINGS[mistake] in attempt(f"{RUNS[command]}{small}{rounds} {mistake}")


@pytest.mark.parametrize("words", OTHERS)
def test_a_wrong_word_is_one_sentence(attempt: Try, words: str) -> None:
    assert OTHERS[words] in attempt(words)


def test_a_command_has_forty_mistakes_to_make() -> None:
    assert len(SETTINGS) >= 40


@pytest.mark.usefixtures("attempt")
@pytest.mark.parametrize("workers", [1, 2])
def test_code_of_the_users_that_raises_in_a_round_is_one_sentence(
    workers: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"run --model nets.py:Batch --clients 2 --rounds 1 --quiet --workers {workers}"
    monkeypatch.setattr(sys, "argv", ["fedloom", *words.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    (last,) = capsys.readouterr().err.splitlines()
    assert last.startswith("error: your code raised RuntimeError: too many (nets.py, line ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk without room")
def test_a_full_disk_is_one_sentence(attempt: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_to_full_disk(*_: object) -> None:
        with open("/dev/full", "w") as file:
            file.write("x")

    monkeypatch.setattr("fedloom.runs.prepare.prepare", write_to_full_disk)
    sentence = attempt("run --method fedavg --rounds 1 --clients 2")
    assert "no space left on device; make room and try again" in sentence
