"""What Fed-GALA may ask of clients' graphs, and of whom."""

from fedloom.conformance.overlapping_task import overlapping_task
from fedloom.methods.fedgala.client_graphs import ClientGraphs, HoldsGraphs
from support.synthetic import small_task


def test_only_a_federation_of_graphs_holds_graphs():
    assert isinstance(overlapping_task().federation, HoldsGraphs)
    assert not isinstance(small_task().federation, HoldsGraphs)


def test_the_graphs_of_a_task_have_all_that_the_method_asks():
    federation = overlapping_task().federation
    assert isinstance(federation, HoldsGraphs)
    asked = [name for name in vars(ClientGraphs) if not name.startswith("_")]
    assert asked
    assert [name for name in asked if not hasattr(federation.graphs, name)] == []
    assert not federation.samples_are_independent
