"""What a notebook shows of a federation are its clients' samples."""

from __future__ import annotations

import re

import fedloom as fl
from fedloom.data.federation_html import MOST_CLIENTS, federation_html
from support.synthetic import federation


def test_a_row_per_client_and_a_column_per_class() -> None:
    data = federation([20, 9])
    page = data._repr_html_()
    assert page == federation_html(data)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells[:3] == ["0", "20", "20"]
    assert [int(cell) for cell in cells[3:8]] == data.counts()[0].tolist()
    assert "29 samples are the global test set." in page


def test_many_clients_are_cut_and_counted() -> None:
    page = federation_html(federation([3] * 50))
    assert page.count("<tr>") == 1 + MOST_CLIENTS
    assert "30 more clients are not shown." in page


def test_names_are_text() -> None:
    data = fl.from_arrays([[1.0, 2.0]] * 8, [0, 1] * 4, client=["<b>"] * 4 + ["c"] * 4)
    assert "&lt;b&gt;" in federation_html(data)


def test_numbers_have_no_classes() -> None:
    page = federation_html(fl.from_arrays([[1.0, 2.0]] * 8, [0.5, 1.5] * 4, clients=2))
    assert "per class" not in page
