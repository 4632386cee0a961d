"""Blueprints: a server without data computes what a simulation does, and a site trains as its client did."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fedloom.config.resolve import method_from_config, resolve, task_from_config
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import SiteData, SiteSettings
from fedloom.engines.inline import Inline
from fedloom.models.model_kind import takes_anything
from fedloom.registry import builtin
from fedloom.registry.kinds import MODELS
from fedloom.rounds.evaluation import score_models
from fedloom.rounds.jobs import Job, LocalEngine
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import prepare
from fedloom.runs.runner import execute, partition_counts
from fedloom.runs.start_model import with_start
from fedloom.tasks.graphs.read import save_graph
from fedloom.tasks.graphs.split import split_graph
from support.small_graphs import clubs

SITES = ("north", "south", "west")
DIGITS = {"name": "digits", "clients": 3, "valid_share": 0.1, "communal_per_class": 2, "model_options": {"hidden": [8]}}
NODES = {"optimizer": "adam", "lr": 0.05, "batch_size": 0, "epochs": 2}


def config(method="fedavg", task=DIGITS, **settings):
    values = {"rounds": 2, "method": {"name": method} if isinstance(method, str) else method, "task": task}
    return resolve({**values, **settings})


def rehearsal_settings(client, name=None):
    return SiteSettings(name=name or SITES[client], client=client, data=SiteData(rehearsal=True))


def all_sizes(task):
    return {client: ClientSizes.of(task.federation, client) for client in range(task.federation.clients)}


def composition_of(task, blueprint):
    return prepare(task, method_from_config(blueprint.config), blueprint.config).composition


class Elsewhere(LocalEngine):
    """Clients work where the data are; the global test set is scored by the server itself."""

    def __init__(self, server, sites):
        self.server, self.sites = Inline(server.runtime()), Inline(sites.runtime())

    def run(self, jobs, message, kept):
        return (self.server if jobs[0].kind == "global" else self.sites).run(jobs, message, kept)

    def close(self):
        pass


def play_two_rounds(run, engine):
    """Everything that two rounds measure, and the state they leave."""
    state = initial_state(run)
    records = [play_prelude(run, engine, state), *(play_round(run, engine, state) for _ in range(2))]
    metrics, rows = score_models(run, engine, state)
    return records, metrics, [{**row, "name": ""} for row in rows], state.server


def equals_simulation(blueprint):
    """Whether a server without samples measures, aggregates and notes what the simulation does, to the last bit."""
    real = task_from_config(blueprint.config)
    simulated = composition_of(real, blueprint)
    at_server = composition_of(blueprint.server_task(all_sizes(real)), blueprint)
    assert at_server.execution.name == simulated.execution.name
    *expected, server = play_two_rounds(simulated, Inline(simulated.runtime()))
    *found, state = play_two_rounds(at_server, Elsewhere(at_server, simulated))
    assert found == expected
    assert state.keys() == server.keys()
    return all(torch.equal(state[name], server[name]) for name in server)


METHODS = [
    "fedavg",
    "scaffold",
    "fedproto",
    {"name": "fedseq", "grouping": "greedy", "approximator": "conf", "min_samples": 500},
    {"name": "fedhybridavglg", "threshold": 400},
    {"name": "fedhybridavglg", "threshold": "auto", "probe_rounds": 1},
    "fedavgexit",
    "ifca",
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m if isinstance(m, str) else "-".join(map(str, m.values())))
def test_a_server_without_data_computes_what_the_simulation_computes(method):
    assert equals_simulation(Blueprint.of(config(method), SITES))


@pytest.mark.parametrize("selection", [{"name": "powerofchoice", "number": 2}, {"name": "oort", "number": 2}])
def test_selectors_see_the_same_sizes_and_answers(selection):
    assert equals_simulation(Blueprint.of(config(selection=selection), SITES))


MIXED = {**DIGITS, "models": {"mlp:hidden=[8]": 0.3, "mlp:hidden=[16,8]": 0.3, "mlp:hidden=[32,8]": 0.4}}


@pytest.mark.parametrize("method", ["local", "fedproto"])
def test_sites_with_different_models_compute_what_the_simulation_computes(method, tmp_path):
    blueprint = Blueprint.of(config(method, MIXED), SITES)
    assert equals_simulation(blueprint)
    blueprint.save(tmp_path, server=False)
    again = Blueprint.load(tmp_path)
    assert again.digest == blueprint.digest
    simulated = composition_of(task_from_config(blueprint.config), blueprint).runtime()
    for client in range(3):
        site = again.runtime(again.site_task(rehearsal_settings(client), tmp_path))
        expected, found = update(simulated, client), update(site, client)
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_sites_begin_from_the_blueprints_models_of_their_architectures(tmp_path):
    made = Blueprint.of(config("local", MIXED), SITES)
    first = replace(made.architectures[0], row=made.architectures[0].row + 1)
    other = replace(made, architectures=(first, *made.architectures[1:]))
    assert other.digest != made.digest
    task = other.site_task(rehearsal_settings(0), tmp_path)
    assert torch.equal(task.of_architecture(0).initial_row(), first.row)


@takes_anything
def frozen_stem(shape, classes, hidden=(8,)):
    """The task's model with a frozen first layer and a mask, as a module from a user's file may be."""
    model = MODELS["mlp"].builder(shape, classes, hidden=hidden)
    next(layer for layer in model if isinstance(layer, torch.nn.Linear)).requires_grad_(False)
    model.register_buffer("mask", torch.tensor([0, -torch.inf]))
    return model


def test_frozen_parameters_are_in_the_blueprint_and_in_no_message(tmp_path, monkeypatch):
    monkeypatch.setitem(builtin.MODELS, "stem", f"{__name__}:frozen_stem")
    made = Blueprint.of(config(task={**DIGITS, "model": "stem"}), SITES)
    assert len(made.initial) == 8 * 10 + 10
    made.save(tmp_path, server=True)
    loaded = Blueprint.load(tmp_path)
    assert loaded.digest == made.digest
    other = replace(loaded, constants={name: t + 1 for name, t in loaded.constants.items()})
    assert other.digest != made.digest
    for blueprint in (loaded, other):  # the blueprint decides, and not this machine's torch
        for task in (blueprint.server_task({}), blueprint.site_task(rehearsal_settings(0), tmp_path)):
            found = task.layout.constants(task.model)
            assert set(found) == {"1.weight", "1.bias", "mask"}
            assert all(torch.equal(found[name], blueprint.constants[name]) for name in found)
    assert equals_simulation(loaded)
    for wrong in ({"1.bias": torch.zeros(3)}, {"1.bias": torch.full((8,), torch.nan)}, {"1.bins": torch.zeros(8)}):
        with pytest.raises(FedloomError, match=r"'1\.bi(a|n)s' of task digits's model is not the one of the blueprint"):
            replace(loaded, constants={**loaded.constants, **wrong}).server_task({})


@pytest.mark.parametrize(
    "trained", [{"frozen": ["1.*"]}, {"adapters": {"rank": 2, "train": ["head.*"]}}], ids=["frozen", "adapters"]
)
def test_a_plan_has_the_model_that_it_starts_from_and_sites_train_their_part_of_it(trained, tmp_path):
    weights = {name: tensor + 0.01 for name, tensor in task_from_config(config()).model.state_dict().items()}
    save_file(weights, tmp_path / "weights.safetensors")
    how = {"task": {**DIGITS, **trained}, "start_from": str(tmp_path / "weights.safetensors")}
    made = Blueprint.of(config(**how), SITES)
    made.save(tmp_path / "site", server=False)
    again = Blueprint.load(tmp_path / "site")
    assert again.digest == made.digest
    assert again.config.start_from is None
    simulated = composition_of(with_start(task_from_config(config(**how)), how["start_from"]), made).runtime()
    for client in range(3):
        task = again.site_task(rehearsal_settings(client), tmp_path)
        first = task.model[1]
        assert torch.equal(getattr(first, "base", first).weight, weights["1.weight"])
        expected, found = update(simulated, client), update(again.runtime(task), client)
        assert all(torch.equal(expected[name], found[name]) for name in expected)
    server = again.server_task({})
    assert torch.equal(server.initial_row(), made.initial)
    assert server.layout.width == len(made.initial)


def test_the_server_set_is_with_the_server_only_and_public_files_are_named_without_their_places(tmp_path):
    np.savez(tmp_path / "public.npz", x=np.full((4, 1, 8, 8), 0.5))
    public = {"path": str(tmp_path / "public.npz"), "labelled": False}
    task = {"name": "digits", "clients": 3, "communal": public, "server_set": {"share": 0.1}}
    made = Blueprint.of(config(task={**task, "model_options": {"hidden": [8]}}), SITES)
    made.save(tmp_path / "server", server=True, paths=False)
    made.save(tmp_path / "north", server=False, paths=False)
    server, site = Blueprint.load(tmp_path / "server"), Blueprint.load(tmp_path / "north")
    assert made.digest == server.digest == site.digest
    assert str(tmp_path) not in (tmp_path / "north" / "config.toml").read_text()
    assert site.server_set is None
    held = server.server_task({}).federation
    assert torch.equal(held.columns["x"][held.server], made.server_set["x"])
    assert (len(held.communal), held.communal_labelled, held.server_labelled, held.server_classes) == (
        4,
        False,
        True,
        10,
    )


def test_balanced_weights_are_numbers_of_the_run_file_whose_labels_no_site_repeats(tmp_path):
    task = {
        **DIGITS,
        "loss": {"name": "cross_entropy", "class_weights": "balanced"},
        "partition": {"name": "dirichlet", "alpha": 0.5},
    }
    made = Blueprint.of(config(task=task), SITES)
    simulated = task_from_config(config(task=task))
    assert made.config.task.loss["class_weights"] == simulated.objective.class_weights
    assert equals_simulation(made)
    made.save(tmp_path, server=False)
    site = Blueprint.load(tmp_path).site_task(rehearsal_settings(1), tmp_path)
    assert site.objective == simulated.objective


def test_a_stream_is_refused():
    with pytest.raises(FedloomError, match=r"task\.stream decides which classes clients meet when"):
        Blueprint.of(config(task={"name": "digits", "clients": 3, "stream": {"tasks": 2, "rounds": 1}}), SITES)


def test_a_blueprint_comes_back_from_its_folders_and_sites_get_no_test_data(tmp_path):
    made = Blueprint.of(config(), SITES)
    made.save(tmp_path / "server", server=True)
    made.save(tmp_path / "north", server=False)
    server, site = Blueprint.load(tmp_path / "server"), Blueprint.load(tmp_path / "north")
    assert made.digest == server.digest == site.digest
    assert made.config == server.config
    assert made.schema == server.schema
    assert made.sites == site.sites == SITES
    assert site.global_test is None
    assert not (tmp_path / "north" / "global.safetensors").exists()
    assert torch.equal(server.global_test["x"], made.global_test["x"])
    assert torch.equal(site.communal["y"], made.communal["y"])
    assert equals_simulation(server)


def test_the_digest_is_of_what_is_computed_and_of_nothing_else():
    made = Blueprint.of(config(), SITES)
    assert Blueprint.of(config(workers=2, engine="processes", checkpoint_every=5), SITES).digest == made.digest
    others = [
        Blueprint.of(config("fedprox"), SITES),
        Blueprint.of(config(seed=1), SITES),
        Blueprint.of(config(), SITES[::-1]),
        replace(made, initial=made.initial + 1),
        replace(made, communal=None),
    ]
    assert len({made.digest, *(other.digest for other in others)}) == 6


def test_the_completed_config_leaves_nothing_to_guess():
    made = Blueprint.of(config(), SITES)
    assert made.config.execution == "vectorised"
    assert made.config.local.lr == 0.1
    assert made.config.task.model == "mlp"
    assert "task" not in made.config.made_by


def test_a_servers_federation_has_sizes_and_no_labels():
    blueprint = Blueprint.of(config(), SITES)
    task = blueprint.server_task({0: ClientSizes(7, 2, 3, 20), 2: ClientSizes(5, 0, 1, 6)})
    federation = task.federation
    assert federation.train.sizes.tolist() == [7, 1, 5]
    assert federation.valid.sizes.tolist() == [2, 0, 0]
    assert federation.test.sizes.tolist() == [3, 0, 1]
    assert federation.points.tolist() == [20, 1, 6]
    assert not task.inputs(federation.train[0][:0]).numel()
    assert not federation.columns["x"][federation.train.order].any()
    assert partition_counts(task) == {
        "counts": [[7], [1], [5]],
        "class_names": ["all classes"],
        "client_names": list(SITES),
    }


def test_sizes_that_sites_only_claim_take_no_memory():
    federation = Blueprint.of(config(), SITES).server_task({0: ClientSizes(10**12, 0, 0, 10**12)}).federation
    assert int(federation.train.sizes[0]) == 10**12
    assert federation.train[0][:1].tolist() == [0]


def test_a_servers_run_leaves_a_run_folder(tmp_path):
    blueprint = Blueprint.of(config(eval_every=0, rounds=1), SITES)
    ready = prepare(blueprint.server_task({}), method_from_config(blueprint.config), blueprint.config)
    assert execute(ready, tmp_path / "run").records[-1]["round"] == 1
    assert (tmp_path / "run" / "partition.json").is_file()


def update(runtime, client):
    algorithm = runtime.algorithm
    message = algorithm.broadcast(algorithm.start(runtime.training.task), [client])
    return runtime.do(Job("update", 1, [client], [0], measure=True), message, {})


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_a_rehearsing_site_trains_as_its_client_does_in_the_simulation(method, tmp_path):
    blueprint = Blueprint.of(config(method), SITES)
    simulated = composition_of(task_from_config(blueprint.config), blueprint).runtime()
    for client in range(3):
        site = blueprint.runtime(blueprint.site_task(rehearsal_settings(client), tmp_path))
        expected, found = update(simulated, client), update(site, client)
        assert expected.keys() == found.keys()
        assert all(expected[name].numpy().tobytes() == found[name].numpy().tobytes() for name in expected)


def test_everyone_begins_from_the_blueprints_model_whatever_torch_would_draw(tmp_path):
    made = Blueprint.of(config(), SITES)
    other = replace(made, initial=made.initial + 1)
    for task in (other.server_task({}), other.site_task(rehearsal_settings(0), tmp_path)):
        assert torch.equal(task.initial_row(), other.initial)
    with pytest.raises(FedloomError, match="but the blueprint has 3"):
        replace(made, initial=torch.zeros(3)).server_task({})


def test_an_evaluator_rehearses_on_the_global_test_set(tmp_path):
    blueprint = Blueprint.of(config(), SITES)
    runtime = blueprint.runtime(blueprint.site_task(rehearsal_settings(3, "judge"), tmp_path))
    federation = runtime.scoring.task.federation
    assert federation.name(3) == "judge"
    assert torch.equal(federation.test[3], federation.global_test)
    message = Message({"row": blueprint.initial})
    whole = runtime.do(Job("global", 1, [0, len(federation.global_test)], []), message, {})
    alone = runtime.do(Job("score", 1, [3], [0]), message, {})
    assert float(alone["score"]) == float(whole["score"])
    assert float(alone["counts"]) == len(federation.global_test)


REFUSED = [
    (config(), SITES[:2], "2 sites are named, but the task has 3 clients: set task.clients to 2, or name 3 sites."),
    (config(), ("a", "b", "a"), "two sites are called a"),
    (config("centralised"), SITES, "all clients' data in one place"),
    (config(task={**DIGITS, "drift": {"rounds": [1]}}), SITES, "task.drift"),
    (config({"name": "fedhybridavglg", "threshold": 10**6}), SITES, "the largest client has"),
]


@pytest.mark.parametrize(("run", "sites", "said"), REFUSED)
def test_what_cannot_be_deployed_is_refused_when_the_blueprint_is_made(run, sites, said):
    with pytest.raises(FedloomError, match=said):
        Blueprint.of(run, sites)


def test_a_small_site_of_a_method_for_large_ones_can_work(tmp_path):
    """Whether some client is above the threshold is for the server to know: this site is not."""
    blueprint = Blueprint.of(config({"name": "fedhybridavglg", "threshold": 400}), SITES)
    np.savez(tmp_path / "few.npz", x=np.random.default_rng(0).random((6, 1, 8, 8)), y=np.arange(6))
    own = SiteSettings(name="south", client=1, data=SiteData(path="few.npz"))
    assert int(update(blueprint.runtime(blueprint.site_task(own, tmp_path)), 1)["samples"][0]) == 4


def test_a_site_beyond_the_evaluator_is_refused(tmp_path):
    with pytest.raises(FedloomError, match="site stray has the number 4, but there are 3 sites"):
        Blueprint.of(config(), SITES).site_task(rehearsal_settings(4, "stray"), tmp_path)


def test_half_a_folder_is_no_blueprint(tmp_path):
    Blueprint.of(config(), SITES).save(tmp_path, server=False)
    (tmp_path / "schema.json").write_text("{")
    with pytest.raises(FedloomError, match="not valid JSON"):
        Blueprint.load(tmp_path)
    (tmp_path / "schema.json").write_text('{"kind": "columns", "colour": 1}')
    with pytest.raises(FedloomError, match=r"schema\.json"):
        Blueprint.load(tmp_path)
    (tmp_path / "initial.safetensors").unlink()
    with pytest.raises(FedloomError, match="has no initial"):
        Blueprint.load(tmp_path)


# -- graphs


@pytest.fixture
def graph(tmp_path):
    """A graph of two clients with a piece each, and nodes that name their client: nothing is shared."""
    path, source = tmp_path / "clubs.npz", clubs(sizes=(12, 12), classes=2, client=[0] * 12 + [1] * 12)
    edges = source.graph.edges[:, (source.graph.edges < 12).sum(0) != 1]
    save_graph(replace(source, graph=replace(source.graph, edges=edges)), path)
    return path


def on_graph(path, method="fedavg", **options):
    task = {"name": "own-graph", "path": str(path), "model_options": {"hidden": 4}, "options": options}
    return config(method, task, local=NODES)


def test_a_server_without_graphs_computes_what_the_simulation_computes(graph):
    blueprint = Blueprint.of(on_graph(graph), SITES[:2])
    assert blueprint.schema.kind == "graph"
    assert blueprint.schema.shape == (2,)
    assert equals_simulation(blueprint)


def test_a_server_of_graphs_has_sizes_and_dummies(graph):
    task = Blueprint.of(on_graph(graph, "fedproto"), SITES[:2]).server_task({1: ClientSizes(3, 1, 1, 9)})
    assert task.federation.points.tolist() == [1, 9]
    assert task.federation.counts().tolist() == [[1], [3]]
    assert task.federation.graphs.sizes.tolist() == [1, 1]


def test_a_site_with_its_own_piece_of_a_graph_trains_as_its_client_does_in_the_simulation(graph, tmp_path):
    blueprint = Blueprint.of(on_graph(graph, normalise=False), SITES[:2])
    task = task_from_config(blueprint.config)
    simulated = composition_of(task, blueprint).runtime()
    for client in range(2):
        piece, copies = task.federation.graphs.original(client), task.federation.graphs.positions(client)
        masks = {
            part: torch.isin(copies, getattr(task.federation, part)[client]) for part in ("train", "valid", "test")
        }
        labels = task.federation.columns["y"][copies]
        whole = replace(clubs(), graph=piece, labels=labels, parts=masks, owner=None, class_names=())
        save_graph(whole, tmp_path / "mine.npz")
        own = SiteSettings(name=SITES[client], client=client, data=SiteData(path="mine.npz"))
        site = blueprint.site_task(own, tmp_path)
        assert ClientSizes.of(site.federation, client) == ClientSizes.of(task.federation, client)
        expected = update(simulated, client)
        found = update(blueprint.runtime(site), client)
        assert all(expected[name].numpy().tobytes() == found[name].numpy().tobytes() for name in expected)


def test_a_method_whose_clients_share_nodes_is_rehearsed_too(tmp_path):
    save_graph(clubs(), tmp_path / "clubs.npz")
    assert len(split_graph(clubs(), 2).graphs.anchors[0])
    run = on_graph(tmp_path / "clubs.npz", "fedgala")
    run = run.model_copy(update={"task": replace(run.task, clients=2)})
    blueprint = Blueprint.of(run, SITES[:2])
    assert blueprint.schema.matches_nodes
    site = blueprint.site_task(rehearsal_settings(0), tmp_path)
    assert [len(some) for some in site.federation.graphs.id_hashes] == [n + 1 for n in site.federation.points]
