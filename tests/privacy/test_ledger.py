"""The ledger of a run."""

import pytest

from fedloom.core.errors import FedloomError
from fedloom.privacy.ledger import PrivacyLedger
from fedloom.privacy.sampling import PoissonDraw

pytest.importorskip("dp_accounting", reason="needs dp-accounting")


def test_it_says_the_mechanism_and_what_was_spent():
    ledger = PrivacyLedger(PoissonDraw(0.01, 2000), 1.0, 1e-5)
    assert ledger.expected == 20
    assert ledger.spent(1000) == pytest.approx(1.828, abs=1e-3)
    assert str(ledger) == ("(Poisson sampling, rate 0.01; neighbours: one client counts as zero; noise 1; delta 1e-05)")


def test_a_sampling_without_a_number_of_clients_has_no_denominator():
    with pytest.raises(FedloomError, match="not known"):
        _ = PrivacyLedger(PoissonDraw(0.01), 1.0, 1e-5).expected
