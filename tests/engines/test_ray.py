"""Workers of Ray: the same bytes as one process, errors as everywhere, and nobody left behind."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import fedloom as fl
from fedloom import engines as engine
from fedloom.cli.app import app
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.runs import prepare as prepare_module
from fedloom.training.execution import Execution
from support.engine_runs import (
    FEDLOOM,
    Faulty,
    Mortal,
    Refusing,
    is_alive,
    result_files,
    run,
    seven_clients,
)
from support.waiting import LIMIT, wait_until

ray = pytest.importorskip("ray", reason="ray is not installed: the engine on Ray is not tried")

from fedloom.engines.ray import _pack, _unpack  # noqa: E402
from fedloom.engines.ray_cluster import connect, import_ray, leave  # noqa: E402

OWN = """
from dataclasses import dataclass
import fedloom as fl

def half(rows):
    return rows / 2

@dataclass(frozen=True)
class Halving(fl.FedAvg):
    def client_update(self, cohort, message):
        reply = super().client_update(cohort, message)
        return fl.Reply({"row": half(reply.tensors["row"])})
"""

pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="module")
def cluster():
    """The address of a local Ray of two cores, begun and ended as for a run; nothing may be left of it."""
    before = set(descendants(os.getpid()))
    connected, folder = connect(import_ray(), 2, None)
    assert connected
    yield ray.get_runtime_context().gcs_address
    started = set(descendants(os.getpid())) - before
    assert len(started) > 2
    leave(ray, folder)
    wait_until(lambda: not any(is_alive(pid) for pid in started))
    assert not Path(folder).exists()


def use_cohorts_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cohorts of two clients, so that there is work for everybody."""
    monkeypatch.setattr(prepare_module, "decide", lambda _, wanted, *__, **___: Execution(wanted, "", 2))


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those they started."""
    try:
        below = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return below + [further for child in below for further in descendants(child)]


# -- where a run is computed decides nothing else


@pytest.mark.slow
@pytest.mark.parametrize(("method", "execution"), [("scaffold", "loop")])
def test_two_ray_workers_leave_the_bytes_of_one_process(tmp_path, monkeypatch, cluster, method, execution):
    use_cohorts_of_two(monkeypatch)
    settings = {"execution": execution, "selection": {"fraction": 0.7}}
    alone = run(tmp_path / "inline", method, engine="inline", **settings)
    there = run(tmp_path / "ray", method, engine="ray", ray_address=cluster, workers=2, **settings)
    assert there == alone
    assert {"metrics.jsonl", "clients.json"} < set(alone)


@pytest.mark.slow
def test_clients_with_different_models_leave_the_same_bytes_on_ray(tmp_path, cluster):
    models = {"mlp:hidden=[16]": [0, 2], "mlp:hidden=[8,8]": [1], "logistic": [3]}
    task = fl.task("digits", clients=4, communal=0.2, models=models)
    alone = run(tmp_path / "inline", "fld", task, engine="inline", channel=["qsgd"])
    assert run(tmp_path / "ray", "fld", task, engine="ray", ray_address=cluster, workers=2, channel=["qsgd"]) == alone


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_run_stopped_on_ray_goes_on_in_processes_to_the_same_bytes(tmp_path, monkeypatch, cluster):
    def stop(record):
        if record["round"] == 2:
            raise KeyboardInterrupt

    use_cohorts_of_two(monkeypatch)
    whole = run(tmp_path / "whole", "fedrep", execution="loop")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "it", "fedrep", execution="loop", engine="ray", ray_address=cluster, workers=2, observers=[stop])
    fl.resume(tmp_path / "it", task=seven_clients(), engine="processes")
    assert result_files(tmp_path / "it") == whole


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_worker_that_dies_twice_is_replaced_and_the_third_death_ends_the_run(tmp_path, cluster, caplog):
    log, settings = tmp_path / "log", {"execution": "loop", "engine": "ray", "ray_address": cluster, "workers": 1}
    calm = run(tmp_path / "calm", Mortal(log=str(tmp_path / "calm.log"), deaths=0), execution="loop")
    assert run(tmp_path / "twice", Mortal(log=str(log), deaths=2), **settings) == calm
    assert log.read_text() == "died\n" * 2
    assert "a Ray worker died: it is replaced and its cohort done again" in caplog.text
    with pytest.raises(FedloomError, match=r"^a Ray worker died 3 times at clients \[2\]: is there enough") as caught:
        run(tmp_path / "always", Mortal(log=str(log), deaths=99), **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_errors_arrive_as_a_sentence_or_with_their_traceback(tmp_path, cluster):
    settings = {"execution": "loop", "engine": "ray", "ray_address": cluster, "workers": 1}
    with pytest.raises(FedloomError, match=r"^clients=7: this method wants eight\.$"):
        run(tmp_path / "refusing", Refusing(), **settings)
    with pytest.raises(RuntimeError, match=r"in client_update(.|\n)*ZeroDivisionError: of all things"):
        run(tmp_path / "faulty", Faulty(), **settings)


@pytest.mark.slow
def test_a_task_that_cannot_be_sent_is_refused_in_a_sentence(tmp_path, cluster):
    lock = threading.Lock()

    def lock_and_return(x: torch.Tensor) -> torch.Tensor:
        with lock:
            return x

    with pytest.raises(FedloomError, match="cannot be sent to Ray workers") as caught:
        run(
            tmp_path / "run",
            "fedavg",
            replace(seven_clients(), prepare=lock_and_return),
            engine="ray",
            ray_address=cluster,
        )
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_local_ray_listens_on_this_machine_only(cluster):
    assert cluster.startswith("127.0.0.1:")
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    port = f"{int(cluster.rpartition(':')[2]):04X}"
    wide = [row[1] for row in listening if row[3] == "0A" and row[1] == f"00000000:{port}"]
    listening = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    wide += [row[1] for row in listening if row[3] == "0A" and row[1] == f"{'0' * 32}:{port}"]
    assert wide == []


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_workers_of_a_local_ray_have_the_priority_of_the_run():
    assert ray.get(ray.remote(lambda: os.nice(0)).remote()) == os.nice(0)


@pytest.mark.slow
def test_another_address_than_the_one_connected_to_is_refused(tmp_path, cluster):
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(FedloomError, match=f"connected to the Ray at {cluster} already"):
            run(tmp_path / "run", "fedavg", engine="ray", ray_address=other)


# -- the whole command


@pytest.mark.slow
def test_the_command_runs_a_method_of_ones_own_on_a_cluster(tmp_path, cluster):
    (tmp_path / "mine.py").write_text(OWN)
    words = f"run --task digits --method {tmp_path}/mine.py:Halving --clients 6 --rounds 2 --quiet --json --out".split()
    assert CliRunner().invoke(app, [*words, str(tmp_path / "inline")]).exit_code == 0
    where = ["--workers", "2", "--engine", "ray", "--ray-address", cluster]
    done = subprocess.run([FEDLOOM, *words, tmp_path / "ray", *where], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert result_files(tmp_path / "ray") == result_files(tmp_path / "inline")


def test_an_address_at_which_nobody_answers_is_refused_soon_and_before_any_work(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"127.0.0.1:{server.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(FedloomError, match=f"^ray_address={free}: nothing answers there") as caught:
        run(tmp_path / "run", "fedavg", engine="ray", ray_address=free)
    assert time.monotonic() - began < LIMIT
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


# -- what is impossible is said


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"engine": "rai"}, "unknown engine 'rai'. Did you mean 'ray'?"),
        ({"engine": "inline", "workers": 2}, "engine=inline has one process: use workers=1"),
        ({"ray_address": "auto"}, "ray_address=auto is for engine=ray, but engine is auto"),
        ({"engine": "processes", "ray_address": "a:1"}, "ray_address=a:1 is for engine=ray, but engine is processes"),
        ({"engine": "ray", "ray_address": "ray://a:1"}, "ray_address=ray://a:1: write host:port"),
        ({"engine": "ray", "ray_address": "somewhere"}, "ray_address=somewhere: write host:port"),
    ],
)
def test_impossible_settings_are_refused_with_a_sentence(values, message):
    with pytest.raises(FedloomError) as caught:
        resolve(values)
    assert str(caught.value).startswith(message)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(FedloomError, match=r"pip install 'fedloom\[ray\]'"):
        engine.check("ray")


@pytest.mark.slow
def test_resume_may_change_where_a_run_is_computed_but_not_to_something_impossible(tmp_path):
    run(tmp_path / "run", "fedavg")
    with pytest.raises(FedloomError, match="is for engine=ray"):
        fl.resume(tmp_path / "run", task=seven_clients(), ray_address="127.0.0.1:6379")
    with pytest.raises(FedloomError, match="has one process"):
        fl.resume(tmp_path / "run", task=seven_clients(), engine="inline", workers=2)
    assert fl.resume(tmp_path / "run", task=seven_clients(), engine="processes", workers=2).records[-1]["round"] == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3)], ids=str)
def test_what_is_packed_comes_back_as_it_was_and_as_a_copy(dtype, shape):
    tensor = torch.randint(0, 2, shape).to(dtype)
    packed = _pack({"it": tensor, "spread": torch.arange(3.0).expand(4, 3)})
    packed[0][3].flags.writeable = False
    back = _unpack(packed)
    assert back["it"].dtype == dtype
    assert back["it"].shape == shape
    assert torch.equal(back["it"], tensor)
    assert torch.equal(back["spread"], torch.arange(3.0).expand(4, 3))
    assert not tensor.numel() or back["it"].data_ptr() != tensor.data_ptr()
