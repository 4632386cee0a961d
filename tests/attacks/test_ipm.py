"""IPM by hand, and where the mean turns round."""

import torch

import fedloom as fl


def test_the_opposite_of_the_mean_by_hand():
    honest = torch.tensor([[1.0, 2.0], [3.0, -2.0]])
    assert fl.IPM(scale=0.5).agreed_change(honest).tolist() == [-1.0, 0.0]


def test_above_the_papers_bound_the_mean_of_all_points_backwards():
    honest = torch.tensor([[1.0, 0.5], [1.0, -0.5], [2.0, 0.0]])  # n - m = 3, m = 2: the bound is 1.5
    for scale, forwards in ((1.4, True), (1.6, False)):
        sent = fl.IPM(scale=scale, knows="all").collude_against("row", torch.zeros(2, 2), honest)
        inner = torch.cat([honest, sent]).mean(0) @ honest.mean(0)
        assert bool(inner > 0) == forwards
