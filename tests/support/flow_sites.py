"""A deployment in this process whose sites read folders of flows: the operator has made its folders of a sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedloom.config.method_spec import with_method
from fedloom.config.resolve import method_from_config, resolve, task_from_config
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.server import serve
from fedloom.deploy.settings import SiteData, SiteSettings
from fedloom.deploy.site.process import SiteProcess
from fedloom.deploy.site.state import SiteState
from fedloom.runs.prepare import prepare
from fedloom.runs.results.history import History
from support.local_transport import NAMES, Local, Plan
from support.n8n_exports import made_workflows, write_exports

DUAL = "fedhybridavglgdual:threshold=30+fedpredict"


def flow_run(path: Path, rounds: int = 2, **options: Any) -> dict[str, Any]:
    """A run file over the folders of three owners."""
    task = {
        "name": "own-flows", "path": str(path), "seed": 1, "test_share": 0.2, "valid_share": 0.1,
        "options": {"vocabulary": "public", "buckets": 16, "least_count": 3000, **options},
        "model_options": {"width": 8, "blocks": 2},
    }  # fmt: skip
    given = {"rounds": rounds, "seed": 5, "task": task, "local": {"epochs": 1, "batch_size": 16, "lr": 0.1}}
    return with_method(given, DUAL)


def write_owners(folder: Path, counts: tuple[int, ...] = (6, 9, 12), seed: int = 0) -> Path:
    """A folder of exports per site."""
    for name, count in zip(NAMES, counts, strict=True):
        write_exports(folder / name, made_workflows(name, count, seed))
    return folder


class FlowSites(Local):
    """Sites with folders of flows; ``plan.prepared`` is the run in the simulator, over the same folders."""

    def __init__(self, run: dict[str, Any], sample: Path, flows: Path, folder: Path) -> None:
        self.flows = flows
        blueprint = Blueprint.of(resolve({**run, "task": {**run["task"], "path": str(sample)}}), NAMES)
        config = resolve(run)
        task = task_from_config(config)
        prepared = prepare(task, method_from_config(config), config)
        super().__init__(Plan(blueprint, blueprint.runtime(task), prepared), folder, deadline=30.0)

    def site(self, client: int) -> SiteProcess:
        """A site's process over its own folder of flows."""
        folder, made = self.folder / NAMES[client], self.plan.blueprint
        made.save(folder, server=False, paths=False)
        settings = SiteSettings(name=NAMES[client], client=client, data=SiteData(path=str(self.flows / NAMES[client])))
        return SiteProcess(
            folder, settings, made, made.runtime(made.site_task(settings, folder)), SiteState(folder / "kept")
        )

    def play_to_the_end(self) -> History:
        """Play the run, and let the sites save their models."""
        history = self.play()
        prepared, engine = self.server()
        assert self.roster is not None
        serve._finish(prepared.composition, engine, self.roster, self.settings, self.run)
        return history

    @property
    def wire(self) -> list[bytes]:
        """All bytes that went to sites and came from them."""
        return [data for _, data in self.transport.down] + [sent.answer for sent in self.transport.sent]
