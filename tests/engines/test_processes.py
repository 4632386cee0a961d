"""Worker processes: the same bytes as one process, whatever happens to a worker, and nobody left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.engines import cpu_progress, processes
from fedloom.engines.inline import Inline
from fedloom.engines.processes import Processes
from fedloom.models import build
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job
from fedloom.runs import prepare as prepare_module
from fedloom.training.execution import Execution, decide
from fedloom.training.local_trainer import LocalTrainer
from fedloom.training.threads import single_thread
from support.engine_runs import (
    FEDLOOM,
    SIZES,
    WORK,
    Faulty,
    Mortal,
    Refusing,
    is_alive,
    result_files,
    run,
    seven_clients,
)
from support.synthetic import federation, mlp
from support.waiting import LIMIT, wait_until


def runtime(task: Task, method: fl.Algorithm) -> ClientRuntime:
    made = prepare_module.prepare(task, method, resolve({"local": WORK, "execution": "loop"})).composition
    trainer = LocalTrainer(task, "loop")
    return ClientRuntime(method, trainer, trainer, made.setting)


def jobs(task: Task) -> list[Job]:
    return [Job("update", 1, [client], [client]) for client in range(task.federation.clients)]


def everything(task: Task) -> Message:
    return Message({"row": task.initial_row()})


def inline(task: Task, method: fl.Algorithm) -> list[dict[str, torch.Tensor]]:
    """The same jobs in this process, with one thread as a run has it."""
    with single_thread():
        return Inline(runtime(task, method)).run(jobs(task), everything(task), {})


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# -- the number of workers changes nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "execution"),
    [
        ("fedavg", "loop"),
        ("local", "vectorised"),
        pytest.param(fl.FedProx(mu=0.1, adaptive=True), "loop", id="adaptive fedprox-loop"),
        ("fedyogi", "vectorised"),
        pytest.param(fl.FedSGD(theta=0.01), "vectorised", id="selective fedsgd-vectorised"),
    ],
)
def test_the_number_of_workers_changes_no_byte(tmp_path, monkeypatch, method, execution):
    small = Execution(execution, "", 2)  # work for everybody
    monkeypatch.setattr(prepare_module, "decide", lambda *_, **__: small)
    settings = {"execution": execution, "selection": {"fraction": 0.7}}
    alone = run(tmp_path / "1", method, workers=1, **settings)
    assert run(tmp_path / "2", method, workers=2, **settings) == alone
    if method == "fedavg":
        assert run(tmp_path / "3", method, workers=3, **settings) == alone


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "local"])
def test_the_number_of_workers_changes_no_byte_of_a_cnn(tmp_path, method):
    task = Task("t", federation(SIZES, (1, 28, 28)), build("lenet-small", (1, 28, 28), 5, 0))
    assert run(tmp_path / "1", method, task, workers=1) == run(tmp_path / "2", method, task, workers=2)


@pytest.mark.slow
def test_a_round_in_halves_gives_the_same_bytes_with_any_number_of_workers_and_after_a_stop(tmp_path):
    """Ten clients with enough work are two cohorts, also for one worker."""
    task = Task("t", federation([40, 33, 33, 30, 22, 20, 17, 12, 9, 3], (784,)), mlp(784, 64))
    settings = {"execution": "vectorised", "local": {**WORK, "batch_size": 32}}
    assert decide(task, "vectorised", LocalWork(batch_size=32)).halved_from <= 10
    alone = run(tmp_path / "1", "scaffold", task, workers=1, **settings)
    assert run(tmp_path / "2", "scaffold", task, workers=2, **settings) == alone
    assert run(tmp_path / "3", "scaffold", task, workers=3, **settings) == alone

    def stop(record):
        if record["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "4", "scaffold", task, workers=2, observers=[stop], **settings)
    fl.resume(tmp_path / "4", task=task, workers=1)
    assert result_files(tmp_path / "4") == alone


def test_results_come_in_the_order_of_the_jobs():
    task = seven_clients()
    engine = Processes(runtime(task, fl.FedAvg()), 2)
    try:
        shared = engine.run(jobs(task), everything(task), {})
    finally:
        engine.close()
    for one, other in zip(shared, inline(task, fl.FedAvg()), strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


# -- workers that die


@dataclass(frozen=True)
class Waiting(fl.FedAvg):
    """FedAvg whose first client waits to be killed, with its process number in a file."""

    file: str = ""

    def client_update(self, cohort: fl.Cohort, message: Message) -> fl.Reply:
        if cohort.ids == [0] and not Path(self.file).exists():
            Path(self.file).write_text(f"{os.getpid()}\n")
            time.sleep(LIMIT)
        return super().client_update(cohort, message)


def test_a_worker_killed_at_work_is_replaced_and_the_result_is_the_same(tmp_path, caplog):
    task, file = seven_clients(), tmp_path / "at-work"
    engine = Processes(runtime(task, Waiting(file=str(file))), 2)

    def kill() -> None:
        wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
        os.kill(int(file.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        shared = engine.run(jobs(task), everything(task), {})
        victim = int(file.read_text())
        assert victim not in [worker.process.pid for worker in engine.workers]
    finally:
        killer.join()
        engine.close()
    assert f"worker process {victim} died at clients" in caplog.text
    assert "it is replaced and its cohort done again" in caplog.text
    for one, other in zip(shared, inline(task, fl.FedAvg()), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_worker_that_hangs_is_named_and_replaced_and_the_result_is_the_same(caplog, monkeypatch):
    monkeypatch.setattr(cpu_progress, "STILL_SECONDS", 1.0)
    monkeypatch.setattr(processes, "LOOK_SECONDS", 0.1)
    task = seven_clients()
    engine = Processes(runtime(task, fl.FedAvg()), 2)
    victim = engine.workers[0].process.pid
    os.kill(victim, signal.SIGSTOP)
    try:
        shared = engine.run(jobs(task), everything(task), {})
    finally:
        engine.close()
    assert f"worker process {victim} hung at clients" in caplog.text
    for one, other in zip(shared, inline(task, fl.FedAvg()), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_workers_killed_while_idle_are_replaced():
    task = seven_clients()
    engine = Processes(runtime(task, fl.FedAvg()), 2)
    try:
        first = engine.run(jobs(task), everything(task), {})
        for worker in engine.workers:
            os.kill(worker.process.pid, signal.SIGKILL)
            worker.process.join()
        second = engine.run(jobs(task), everything(task), {})
    finally:
        engine.close()
    assert all(torch.equal(a["reply/row"], b["reply/row"]) for a, b in zip(first, second, strict=True))


def test_a_worker_that_dies_with_an_unread_job_is_replaced():
    """Stopped workers do not read their pipes, so the job is still in the pipe when they die."""
    task = seven_clients()
    engine = Processes(runtime(task, fl.FedAvg()), 2)
    pids = [worker.process.pid for worker in engine.workers]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    killers = [threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)) for pid in pids]
    for killer in killers:
        killer.start()
    try:
        assert len(engine.run(jobs(task), everything(task), {})) == len(SIZES)
    finally:
        for killer in killers:
            killer.join()
        engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "kept"])
def test_a_run_whose_worker_dies_twice_at_the_same_client_gives_the_same_bytes(tmp_path, method):
    @dataclass(frozen=True)
    class MortalLocal(fl.Local):
        log: str = ""
        deaths: int = 2

        def client_update(self, cohort: fl.Cohort, message: Message) -> fl.Reply:
            Mortal(log=self.log, deaths=self.deaths).client_update(cohort, everything(cohort.task))
            cohort.__init__(cohort.ids, cohort.trainer, cohort.setting, cohort.round, cohort.kept)
            return super().client_update(cohort, message)

    mortal = Mortal if method == "fedavg" else MortalLocal
    calm, log = tmp_path / "calm.log", tmp_path / "deaths.log"
    settings = {"execution": "loop", "workers": 2}
    undisturbed = run(tmp_path / "calm", mortal(log=str(calm), deaths=0), **settings)
    assert run(tmp_path / "disturbed", mortal(log=str(log), deaths=2), **settings) == undisturbed
    assert log.read_text() == "died\n" * 2


def test_a_worker_that_dies_every_time_ends_the_run_with_a_sentence_and_leaves_nobody(tmp_path):
    before = children(os.getpid())
    text = r"a worker process died 3 times at clients \[2\]: is there enough memory\?"
    with pytest.raises(FedloomError, match=text) as caught:
        run(tmp_path / "run", Mortal(log=str(tmp_path / "log"), deaths=99), execution="loop", workers=2)
    assert "\n" not in str(caught.value)
    assert children(os.getpid()) == before
    assert (tmp_path / "log").read_text() == "died\n" * 3


# -- errors in workers


def test_an_error_in_a_worker_arrives_with_its_traceback(tmp_path):
    before = children(os.getpid())
    with pytest.raises(RuntimeError) as caught:
        run(tmp_path / "run", Faulty(), execution="loop", workers=2)
    assert "ZeroDivisionError: of all things" in str(caught.value)
    assert "in client_update" in str(caught.value)
    assert children(os.getpid()) == before


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sentence_for_a_person_stays_one(tmp_path, workers):
    with pytest.raises(FedloomError, match=r"^clients=7: this method wants eight\.$"):
        run(tmp_path / "run", Refusing(), execution="loop", workers=workers)


def open_files() -> set[tuple[str, str]]:
    """This process's open files, by number and what they lead to; one that is closed meanwhile is left out."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


@pytest.mark.slow
def test_closing_ends_all_workers_and_gives_their_files_back():
    Processes(runtime(seven_clients(), fl.FedAvg()), 1).close()  # what the first one opens for good
    before = open_files()
    engine = Processes(runtime(seven_clients(), fl.FedAvg()), 3)
    opened = open_files() - before
    assert len(opened) >= 3
    pids = [worker.process.pid for worker in engine.workers]
    assert all(is_alive(pid) for pid in pids)
    engine.close()
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "a worker is still alive")
    del engine

    def are_given_back() -> bool:
        gc.collect()
        return not opened & open_files()

    wait_until(are_given_back, f"files of workers are still open, of {opened}")


# -- the whole command


def command(folder: Path, workers: int = 2, rounds: int = 60) -> list[str]:
    return [
        FEDLOOM, "run", "--task", "digits", "--method", "fedavg", "--clients", "10", "--alpha", "0.3",
        "--fraction", "0.5", "--rounds", str(rounds), "--seed", "1", "--workers", str(workers), "--out", str(folder),
        "--quiet", "--json",
    ]  # fmt: skip


def wait_for_first_record(folder: Path, process: subprocess.Popen) -> None:
    """Wait until a run has measured something, with its workers at work."""
    metrics = folder / "metrics.jsonl"
    wait_until(lambda: process.poll() is not None or (metrics.exists() and metrics.stat().st_size > 2000))


@pytest.mark.slow
def test_ctrl_c_exits_130_leaves_no_process_and_a_run_that_resumes_to_the_same_bytes(tmp_path):
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    process = subprocess.Popen(command(stopped), start_new_session=True, stderr=subprocess.PIPE, text=True)
    wait_for_first_record(stopped, process)
    workers = children(process.pid)
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the parent and its workers
    text = process.communicate(timeout=LIMIT)[1]
    assert process.returncode == 130
    assert f"stopped: continue with  fedloom resume {stopped}" in text
    assert "Traceback" not in text
    wait_until(lambda: not any(is_alive(pid) for pid in workers))
    assert not (stopped / "clients.json").exists()
    for arguments in (["resume", str(stopped), "--quiet", "--json"], command(whole, workers=1)[1:]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert result_files(stopped) == result_files(whole)


@pytest.mark.slow
@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGTERM"])
def test_a_parent_that_is_killed_leaves_no_orphan(tmp_path, signal_name):
    process = subprocess.Popen(command(tmp_path / "run", rounds=5000), start_new_session=True, stderr=subprocess.PIPE)
    wait_for_first_record(tmp_path / "run", process)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(process.pid, getattr(signal, signal_name))
    process.wait(timeout=LIMIT)
    wait_until(lambda: not any(is_alive(pid) for pid in workers))


@pytest.mark.slow
def test_a_parent_that_is_killed_takes_workers_along_that_are_deep_in_their_work(tmp_path):
    (tmp_path / "sleepy.py").write_text(
        "import os, time\nfrom pathlib import Path\nimport fedloom as fl\n\n"
        "class Sleepy(fl.FedAvg):\n"
        "    def client_update(self, cohort, message):\n"
        f"        Path({str(tmp_path)!r}, f'{{os.getpid()}}.asleep').touch()\n"
        "        time.sleep(600)\n"
    )
    arguments = [*command(tmp_path / "run"), "--method", f"{tmp_path / 'sleepy.py'}:Sleepy", "--execution", "loop"]
    process = subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.PIPE)
    wait_until(lambda: process.poll() is not None or len(list(tmp_path.glob("*.asleep"))) == 2)
    workers = [int(path.stem) for path in tmp_path.glob("*.asleep")]
    assert len(workers) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=LIMIT)
    try:
        wait_until(lambda: not any(is_alive(pid) for pid in workers))
    finally:
        for pid in filter(is_alive, workers):
            os.kill(pid, signal.SIGKILL)
