"""Fed-GALA on three small overlapping graphs: its phases, its edges, its weights, and what it sends."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.conformance.overlapping_task import overlapping_task
from fedloom.core.errors import FedloomError
from fedloom.methods.fedgala.anchors import anchor_edges, anchor_means, nearest_nodes
from fedloom.methods.fedgala.autoencoder import sample_non_edges
from fedloom.methods.fedgala.fedgala import CHOSEN, TASK, structure_loss
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.training.functional_network import FunctionalNetwork
from support.overlapping_graphs import NEVER, WORK, final_on_graphs, run_on_graphs
from support.silent_clients import missing, play_run, prepare_run

# -- phase 1


def test_the_combined_loss_is_half_autoencoder_and_half_cross_entropy():
    task = overlapping_task()
    graphs, x = task.federation.graphs, task.federation.train[1]
    graph = graphs.graph(1)
    model = task.model.eval()
    torch.manual_seed(8)
    with torch.no_grad():
        network = FunctionalNetwork(model, dict(model.named_parameters()), torch.ones(len(x)))
        values, counts = structure_loss(network, x, task.targets(x), {})
    torch.manual_seed(8)
    others = sample_non_edges(graph)
    z = model.embed(1).detach()
    products = (z @ z.t()).sigmoid()
    near = -products[graph.edges[0], graph.edges[1]].log().mean()
    far = -(1 - products[others[0], others[1]]).log().mean()
    class_loss = F.cross_entropy(z[x - graphs.offsets[1]], task.targets(x))
    assert float(values.sum() / counts.sum()) == pytest.approx(float(0.5 * (near + far) + 0.5 * class_loss), rel=1e-5)


def test_phase_one_takes_at_most_half_of_the_rounds(tmp_path):
    phases = [int(final_on_graphs(tmp_path / str(n), fl.FedGala(**NEVER), rounds=n).server["phase"]) for n in (1, 2, 7)]
    assert phases == [TASK] * 3
    history = run_on_graphs(fl.FedGala(**NEVER), rounds=7)
    assert history.records[-1]["round"] == 7  # nobody ever leaves
    talks = [record["bytes_up"] for record in history.records[1:]]
    assert [n for n, sent in enumerate(talks, 1) if sent > min(talks)] == [3]  # 7 // 2: anchors are sent once


def test_phase_one_ends_when_everybody_stands_still():
    history = run_on_graphs(fl.FedGala(first_tolerance=100, tolerance=0), rounds=9)
    talks = [record["bytes_up"] for record in history.records[1:]]
    assert [n for n, sent in enumerate(talks, 1) if sent > min(talks)] == [2]  # the first loss has nothing before it


def test_everybody_comes_back_for_the_task():
    history = run_on_graphs(fl.FedGala(first_tolerance=100, tolerance=100), rounds=9)
    assert [len(record["selected"]) for record in history.records[1:]] == [3, 3, 3, 3]  # two rounds of each phase


# -- phase 2


@pytest.mark.parametrize("augment", ["anchors", "own"])
def test_edges_lead_from_anchors_to_the_nodes_nearest_to_what_is_known_of_them(tmp_path, augment):
    """By brute force, from the models that clients had at the end of phase 1."""
    rounds = 2  # one of phase 1, then the task's
    state = final_on_graphs(tmp_path / "one", fl.FedGala(augment=augment, **NEVER), rounds)
    plain = final_on_graphs(tmp_path / "none", fl.FedGala(augment="none", **NEVER), rounds)
    task = overlapping_task()
    graphs = task.federation.graphs
    # after one round of phase 1 the models are those of a run of one round
    first = final_on_graphs(tmp_path / "first", fl.FedGala(augment="none", **NEVER), 1).server["models"]
    z = []
    for client, row in enumerate(first):
        task.layout.fill(task.model, row)
        z.append(task.model.eval().embed(client).detach())
    embeddings = torch.zeros(3, graphs.most_anchors, 3)
    for client in range(3):
        embeddings[client, : len(graphs.anchors[client])] = z[client][graphs.anchors[client]]
    about = anchor_means(embeddings, graphs.anchor_ids) if augment == "anchors" else embeddings
    for client in range(3):
        anchors = graphs.anchors[client]
        expected = nearest_nodes(graphs.graph(client), anchors, z[client], about[client, : len(anchors)])
        assert state.client_states.rows[CHOSEN][client, : len(anchors)].tolist() == expected.tolist()
        assert anchor_edges(anchors, expected).shape[1] > 0
    assert CHOSEN not in plain.client_states.rows
    assert not torch.equal(plain.server["row"], state.server["row"])


def test_what_is_sent_about_anchors_is_their_number_times_the_classes():
    task = overlapping_task()
    anchors = sum(len(some) for some in task.federation.graphs.anchors)
    sent = [run_on_graphs(fl.FedGala(augment=a, **NEVER), 2).records[1]["bytes_up"] for a in ("anchors", "own", "none")]
    assert sent[0] - sent[2] == anchors * 3 * 4
    assert sent[1] == sent[2]


def test_a_client_is_scored_on_the_graph_that_it_augmented():
    method, task = fl.FedGala(**NEVER), overlapping_task()
    history = fl.run(task, method, rounds=3, seed=3, local=WORK)
    graphs = task.federation.graphs
    added = [graphs.graph(k).edges.shape[1] - graphs.original(k).edges.shape[1] for k in range(3)]
    assert all(0 < n <= len(graphs.anchors[k]) for k, n in enumerate(added))
    task.layout.fill(task.model, history.row)
    for row in history.clients:
        test = task.federation.test[row["client"]]
        hits = task.model.eval()(test).argmax(1) == task.targets(test)
        assert row["accuracy"] == pytest.approx(float(hits.float().mean()))
    again = fl.run(task, "fedavg", rounds=1, seed=3, local=WORK)  # a new run begins with the graphs as they came
    assert again.records
    assert [graphs.graph(k).edges.shape[1] for k in range(3)] == [graphs.original(k).edges.shape[1] for k in range(3)]


def test_anchors_of_a_client_that_does_not_answer_are_in_no_mean_and_it_draws_nothing(tmp_path):
    run = prepare_run(overlapping_task(), fl.FedGala(**NEVER), rounds=2, local=WORK, eval_every=0)
    play_run(run, lambda job: job.kind == "update" and job.turn == 1 and job.ids == [1], tmp_path / "run")
    state = load_checkpoint(tmp_path / "run", 3)
    assert state.client_states.has[CHOSEN].tolist() == [1, 0, 1]
    task = overlapping_task()
    graphs, there = task.federation.graphs, [0, 2]
    first = final_on_graphs(tmp_path / "first", fl.FedGala(augment="none", **NEVER), 1).server["models"]
    embeddings, z = torch.zeros(2, graphs.most_anchors, 3), {}
    for place, client in enumerate(there):
        task.layout.fill(task.model, first[client])
        z[client] = task.model.eval().embed(client).detach()
        embeddings[place, : len(graphs.anchors[client])] = z[client][graphs.anchors[client]]
    about = anchor_means(embeddings, [graphs.anchor_ids[client] for client in there])
    for place, client in enumerate(there):
        anchors = graphs.anchors[client]
        expected = nearest_nodes(graphs.graph(client), anchors, z[client], about[place, : len(anchors)])
        assert state.client_states.rows[CHOSEN][client, : len(anchors)].tolist() == expected.tolist()


def test_a_client_that_misses_a_round_is_weighed_by_its_last_model(tmp_path):
    run = prepare_run(overlapping_task(), fl.FedGala(**NEVER), rounds=3, local=WORK, eval_every=0)
    play_run(run, missing(r3=[2]), tmp_path / "run")
    server, held = load_checkpoint(tmp_path / "run", 3).server, overlapping_task().federation
    omega = held.train.sizes * held.graphs.sizes / (held.train.sizes * held.graphs.sizes).sum()
    assert torch.allclose(server["row"], omega.float() @ server["models"], atol=1e-6)


# -- aggregation and variants


def test_the_shared_model_is_the_mean_of_all_last_models_by_labels_times_nodes(tmp_path):
    server, held = final_on_graphs(tmp_path, fl.FedGala(), 5).server, overlapping_task().federation
    omega = held.train.sizes * held.graphs.sizes / (held.train.sizes * held.graphs.sizes).sum()
    assert float(omega.sum()) == pytest.approx(1)
    assert torch.allclose(server["row"], omega.float() @ server["models"], atol=1e-6)


def test_weights_that_do_not_sum_to_one_shrink_the_model_away():
    """As printed (s_k/s · n_k/n) they sum to about 1/K: what the thesis' formula would do, and why it is normalised."""
    held = overlapping_task().federation
    s, n = held.train.sizes.double(), held.graphs.sizes.double()
    printed = (s / s.sum()) * (n / n.sum())
    assert float(printed.sum()) == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedgala", "fedgalap", "fedgala:augment=own"])
def test_two_workers_and_a_stop_change_no_byte(tmp_path, method):
    task = overlapping_task()

    def stop(record):
        if record["round"] == 4:
            raise KeyboardInterrupt

    whole = fl.run(task, f"{method}+own", rounds=6, local=WORK, out=tmp_path / "whole", workers=2)
    with pytest.raises(KeyboardInterrupt):
        fl.run(task, f"{method}+own", rounds=6, local=WORK, out=tmp_path / "part", observers=[stop])
    part = fl.resume(tmp_path / "part", task=overlapping_task())
    assert part.records == whole.records
    assert torch.equal(part.row, whole.row)


@pytest.mark.parametrize("method", ["fedrep", "scaffold", "fedavg+fedpredict", "ditto", "lgfedavg", "moon", "fedproto"])
def test_other_methods_train_graphs_as_they_train_everything_else(method):
    local = {**WORK, "optimizer": "sgd", "lr": 0.1}
    history = fl.run(overlapping_task(), method, rounds=2, local=local, clients_on_global=True)
    assert history.last("client_model/own_test/accuracy/mean") is not None
    assert all(0 <= row["global_accuracy"] <= 1 for row in history.clients)


# -- refusals


def test_it_is_refused_where_there_are_no_graphs():
    with pytest.raises(FedloomError, match="has no graphs: use it with cora"):
        fl.run("digits", "fedgala", rounds=1)


def test_small_batches_are_refused():
    with pytest.raises(FedloomError, match="use batch_size=0"):
        fl.run(overlapping_task(), "fedgala", rounds=1, local={**WORK, "batch_size": 4})


def test_a_negative_tolerance_is_refused():
    with pytest.raises(FedloomError, match="first_tolerance"):
        fl.FedGala(first_tolerance=-1)
