"""A run can stop at any moment and goes on to the same bytes; one that diverges says so and keeps what it measured."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.runs.runner import execute
from support.silent_clients import SilentEngine, missing, play_run, prepare_run
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
FEDLOOM = str(Path(sys.executable).parent / "fedloom")
METHODS = ["fedavg", "fedyogi", "local", "centralised", fl.FedProx(mu=0.1, adaptive=True)]
NAMES = ["fedavg", "fedyogi", "local", "centralised", "adaptive fedprox"]


def small_task(name: str = "own") -> Task:
    return Task(name, federation([20, 9, 14, 31]), mlp())


def result_files(folder: Path) -> dict[str, bytes]:
    """All that a finished run leaves and no clock decides."""
    files = [*folder.glob("checkpoints/*.safetensors"), folder / "metrics.jsonl", folder / "clients.json"]
    return {path.name: path.read_bytes() for path in files}


def run(folder: Path | None, method="fedavg", task: Task | None = None, **settings) -> fl.History:
    settings = {"rounds": 4, "seed": 3, "local": WORK, "selection": {"fraction": 0.5}, **settings}
    return fl.run(task or small_task(), method, out=folder, **settings)


def stop_at(number: int):
    """An observer that presses Ctrl-C once a round has been noted, before its checkpoint."""

    def observe(record):
        if record["round"] == number:
            raise KeyboardInterrupt

    return observe


# -- stopping and going on


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("method", METHODS, ids=NAMES)
def test_a_run_stopped_in_any_round_goes_on_to_the_same_bytes(tmp_path, method, workers):
    run(tmp_path / "whole", method)
    for number in range(5):
        folder = tmp_path / str(number)
        with pytest.raises(KeyboardInterrupt):
            run(folder, method, workers=workers, observers=[stop_at(number)])
        assert not (folder / "clients.json").exists()
        fl.resume(folder, task=small_task(), workers=3 - workers)
        assert result_files(folder) == result_files(tmp_path / "whole"), f"stopped in round {number}"


def test_a_run_may_stop_often(tmp_path):
    run(tmp_path / "whole", "local", rounds=6)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "often", "local", rounds=6, observers=[stop_at(1)])
    for number in (2, 3, 3, 5):
        with pytest.raises(KeyboardInterrupt):
            fl.resume(tmp_path / "often", task=small_task(), observers=[stop_at(number)])
    fl.resume(tmp_path / "often", task=small_task())
    assert result_files(tmp_path / "often") == result_files(tmp_path / "whole")


def test_a_run_with_few_checkpoints_goes_back_to_the_last_one(tmp_path):
    run(tmp_path / "whole", "fedyogi", rounds=7)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", "fedyogi", rounds=7, checkpoint_every=3, observers=[stop_at(6)])
    fl.resume(tmp_path / "stopped", task=small_task())
    assert result_files(tmp_path / "stopped") == result_files(tmp_path / "whole")


@pytest.mark.parametrize("left", [1, 30, -1], ids=["one byte", "some", "all but the line end"])
def test_a_torn_last_line_of_the_metrics_is_repaired(tmp_path, left):
    run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "torn", observers=[stop_at(3)])
    metrics = tmp_path / "torn" / "metrics.jsonl"
    *whole, last = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join(whole) + last[:left])
    fl.resume(tmp_path / "torn", task=small_task())
    assert result_files(tmp_path / "torn") == result_files(tmp_path / "whole")


def test_resuming_a_finished_run_changes_nothing_and_gives_its_history(tmp_path):
    history = run(tmp_path / "run")
    before = result_files(tmp_path / "run")
    again = fl.resume(tmp_path / "run", task=small_task())
    assert result_files(tmp_path / "run") == before
    assert again.records == history.records
    assert again.clients == history.clients


def test_an_observer_of_a_resumed_run_sees_every_round_once(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", observers=[stop_at(2)])
    seen = []
    fl.resume(tmp_path / "run", task=small_task(), observers=[lambda record: seen.append(record["round"])])
    assert seen == [0, 1, 2, 3, 4]


def test_a_task_under_a_name_of_its_own_is_resumed_when_it_is_given(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", task=small_task("hospitals"), observers=[stop_at(2)])
    assert fl.resume(tmp_path / "run", task=small_task("hospitals")).records[-1]["round"] == 4


def test_a_history_read_from_its_folder_is_the_one_that_was_returned(tmp_path):
    history = run(tmp_path / "run")
    loaded = fl.History.load(tmp_path / "run")
    assert loaded.records == history.records
    assert loaded.clients == history.clients
    assert loaded.partition == history.partition
    assert loaded.config == history.config


def test_in_memory_and_in_a_folder_the_numbers_are_the_same(tmp_path):
    assert run(None).records == run(tmp_path / "run").records


def test_seeds_decide_and_nothing_else(tmp_path):
    torch.manual_seed(1)
    run(tmp_path / "a")
    torch.manual_seed(2)
    torch.rand(10)
    run(tmp_path / "b")
    run(tmp_path / "c", seed=4)
    assert result_files(tmp_path / "a") == result_files(tmp_path / "b")
    assert result_files(tmp_path / "a") != result_files(tmp_path / "c")


def test_a_run_leaves_torchs_generator_and_threads_as_they_were():
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    try:
        run(None)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path):
    run(tmp_path / "run", rounds=1)
    before = result_files(tmp_path / "run")
    with pytest.raises(FedloomError, match="already contains a run: resume it, or name another folder"):
        run(tmp_path / "run", rounds=2)
    assert result_files(tmp_path / "run") == before


class Failing(fl.FedAvg):
    fails_in: ClassVar[int] = 1

    def client_update(self, cohort, message):
        if cohort.round == self.fails_in:
            raise ZeroDivisionError("a mistake")
        return super().client_update(cohort, message)


class FailingLater(Failing):
    fails_in: ClassVar[int] = 2


def test_a_run_that_fails_in_its_first_round_leaves_its_folder_free_for_the_next_try(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ZeroDivisionError):
        fl.run("digits", Failing(), rounds=2, out=tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    fl.run("digits", "fedavg", rounds=1, out=tmp_path / "run")


def test_a_run_that_fails_later_keeps_what_it_has(tmp_path):
    with pytest.raises(ZeroDivisionError):
        fl.run("digits", FailingLater(), rounds=3, out=tmp_path / "run")
    history = fl.resume(tmp_path / "run", method=Failing())
    assert [record["round"] for record in history.records] == [0, 1, 2, 3]


def test_a_run_that_is_stopped_in_its_first_round_can_be_resumed(tmp_path):
    class Stopping(fl.FedAvg):
        def client_update(self, cohort, message):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fl.run("digits", Stopping(), rounds=1, out=tmp_path / "run")
    assert (tmp_path / "run" / "config.toml").exists()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FedloomError, match="cannot be written"):
        run(tmp_path / "file" / "run")


def test_what_is_no_runs_folder_is_not_resumed(tmp_path):
    with pytest.raises(FedloomError, match=r"is not the folder of a run: it has no config\.toml"):
        fl.resume(tmp_path, task=small_task())


def test_of_a_folder_of_runs_one_is_named(tmp_path):
    fl.compare(small_task(), ["fedavg", "local"], rounds=1, out=tmp_path / "both")
    with pytest.raises(
        FedloomError, match=r"no config\.toml\. Name one of the runs in it, such as .*both/fedavg-seed0\.$"
    ):
        fl.History.load(tmp_path / "both")


# -- rounds with too few answers


def run_and_count_starts(run, is_silent, **more):
    """A run, and how often each round was begun."""
    cores = SilentEngine.of(run, is_silent)
    try:
        return execute(run, more.get("folder"), (), cores), cores.started_rounds
    except FedloomError as why:
        return why, cores.started_rounds


def test_a_round_with_as_many_answers_as_are_needed_counts():
    run = prepare_run(small_task(), fl.FedAvg(), quorum=2, local=WORK)
    history, begun = run_and_count_starts(run, missing(r2=[0, 3]))
    assert [record["selected"] for record in history.records] == [[], [0, 1, 2, 3], [1, 2], [0, 1, 2, 3]]
    assert begun == [0, 1, 2, 3]


def test_a_round_with_too_few_is_tried_again_as_if_nothing_had_happened(tmp_path, caplog):
    run = prepare_run(small_task(), fl.FedDyn(), quorum=3, retries=2, local=WORK)
    asked = itertools.count()

    def at_first(job) -> bool:
        """In round 2 clients 0 and 3 answer only when they are asked for the third time."""
        return missing(r2=[0, 3])(job) and next(asked) < 4

    history, begun = run_and_count_starts(run, at_first, folder=tmp_path / "sparse")
    assert begun == [0, 1, 2, 2, 2, 3]
    whole = play_run(run, folder=tmp_path / "whole")
    assert history.records == whole.records
    assert result_files(tmp_path / "sparse") == result_files(tmp_path / "whole")
    text = "round 2 was abandoned, the model is unchanged: 2 of 4 clients answered, but 3 are needed; trying it again"
    assert caplog.text.count(text) == 2


def test_a_run_whose_rounds_stay_without_answers_stops_with_the_reason_and_goes_on_later(tmp_path):
    run = prepare_run(small_task(), fl.FedDyn(), quorum=3, retries=1, local=WORK)
    why, begun = run_and_count_starts(run, missing(r3=[1, 2]), folder=tmp_path / "run")
    assert str(why) == (
        "round 3 was abandoned, the model is unchanged: 2 of 4 clients answered, but 3 are needed; resume the run when "
        "more clients are connected."
    )
    assert begun == [0, 1, 2, 3, 3]
    assert "stopped" not in (tmp_path / "run" / "metrics.jsonl").read_text()
    play_run(run, folder=tmp_path / "run")
    play_run(run, folder=tmp_path / "whole")
    assert result_files(tmp_path / "run") == result_files(tmp_path / "whole")


def test_without_retries_the_first_round_with_too_few_stops_the_run():
    why, begun = run_and_count_starts(prepare_run(small_task(), fl.FedAvg(), local=WORK), missing(r1=range(4)))
    assert "0 of 4 clients answered, but 1 are needed" in str(why)
    assert begun == [0, 1]


def test_no_more_answers_are_needed_than_clients_were_asked():
    run = prepare_run(small_task(), fl.FedAvg(), quorum=3, local=WORK, selection={"number": 2})
    history, _ = run_and_count_starts(run, missing())
    assert [len(record["selected"]) for record in history.records] == [0, 2, 2, 2]
    why, _ = run_and_count_starts(
        run, lambda job: job.kind == "update" and job.ids[0] == history.records[1]["selected"][0]
    )
    assert "1 of 2 clients answered, but 2 are needed" in str(why)


def test_who_was_left_out_is_in_the_record_of_the_round(tmp_path):
    run = prepare_run(small_task(), fl.FedAvg(), local=WORK)
    cores = SilentEngine.of(run, missing(r2=[1]))
    one = {"client": 1, "name": "south", "what": "update", "reason": "not connected"}
    cores.reasons = {("update", 2): one}
    execute(run, tmp_path / "run", (), cores)
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record.get("excluded") for record in records] == [None, None, [one], None]


# -- diverging


DIVERGING = [
    *itertools.product(["fedavg", "local", "fedsgd"], [1e8, 1e14, 1e20, 1e30], [1]),
    *itertools.product(["fedyogi"], [1e20, 1e30], [1]),  # below that its server's bounded steps save it
    ("fedavg", 1e14, 2),
    ("local", 1e20, 2),
]


@pytest.mark.parametrize(("method", "lr", "workers"), DIVERGING)
def test_a_diverging_run_stops_with_a_message_and_keeps_what_was_measured(tmp_path, method, lr, workers):
    history = run(tmp_path / "run", method, local={**WORK, "lr": lr}, rounds=30, workers=workers)
    assert f"{method} diverged in round" in history.stopped
    assert f"try a learning rate below {lr:g}" in history.stopped
    assert "\n" not in history.stopped
    assert 1 <= len(history.records) < 31
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[:-1] == history.records
    assert lines[-1] == {"stopped": history.stopped}
    assert lines[0]["metrics"]
    loaded = fl.History.load(tmp_path / "run")
    assert (loaded.records, loaded.stopped) == (history.records, history.stopped)
    with pytest.raises(FedloomError, match="has ended"):
        fl.resume(tmp_path / "run", task=small_task())


def test_a_comparison_goes_on_when_a_method_diverges():
    class Wild(fl.FedAvg):
        def client_update(self, cohort, message):
            rows = cohort.train(cohort.spread(message["row"]))
            return fl.Reply({"row": rows * torch.inf if cohort.round == 2 else rows})

    found = fl.compare(small_task(), ["fedavg", Wild(), "local"], rounds=3, local=WORK)
    fine, wild, alone = (histories[0] for histories in found.values())
    assert "diverged in round 2" in wild.stopped
    assert [record["round"] for record in wild.records] == [0, 1]
    assert wild.records[1] == fine.records[1]
    assert fine.stopped is None
    assert alone.stopped is None
    assert [record["round"] for record in alone.records] == [0, 1, 2, 3]


# -- killed for good


ROUNDS = 40
KILLED = {
    "few clients of a round": ("fedavg", ["--fraction", "0.5"], 1, 1),
    "state of the server": ("fedyogi", [], 2, 1),
    "state of the clients, killed twice": ("local", ["--fraction", "0.5"], 2, 2),
}


def command(folder: Path, method: str, options: list[str], workers: int) -> list[str]:
    return [
        "run", "--task", "digits", "--method", method, *options, "--clients", "12", "--alpha", "0.3",
        "--rounds", str(ROUNDS), "--seed", "1", "--workers", str(workers), "--out", str(folder), "--quiet", "--json",
    ]  # fmt: skip


def done(arguments: list[str]) -> None:
    """A command in this process, which is quicker than in one of its own."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"


def start_and_kill(arguments: list[str], metrics: Path, luck: random.Random) -> int:
    """Start a command, kill it a random moment after a random round that is still to come; its exit status."""

    def rounds() -> int:
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    target = luck.randint(rounds(), ROUNDS - 8)
    process = subprocess.Popen([FEDLOOM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic() + 120
    while rounds() <= target and process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(luck.uniform(0, 0.03))
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options", "workers", "times"),
    [
        pytest.param(*case, id=name, marks=() if "twice" in name else pytest.mark.exhaustive)
        for name, case in KILLED.items()
    ],
)
def test_kill_9_at_a_random_moment_and_resume_give_the_same_bytes(tmp_path, method, options, workers, times):
    luck = random.Random(f"{method} {workers} {times}")
    folder, undisturbed = tmp_path / "run", tmp_path / "undisturbed"
    resume = ["resume", str(folder), "--quiet", "--json"]
    for arguments in [command(folder, method, options, workers), resume][:times]:
        assert start_and_kill(arguments, folder / "metrics.jsonl", luck) == -signal.SIGKILL
    done(resume)
    done(command(undisturbed, method, options, workers=1))
    assert result_files(folder) == result_files(undisturbed)
    assert int(load_file(folder / "checkpoints" / f"round-{ROUNDS:06}.safetensors")["round"]) == ROUNDS
