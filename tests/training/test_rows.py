"""Rows that no leaf reaches: training would not learn from them, and selection would be blind."""

import pytest
import torch

from tests.training.scenes import pinwheel, seeded
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture, Specification
from voronoi_circuits.training import Adam

LEAVES = Circuit(units=3, leaf={1: "histogram"})
SPECS = {"circuit": LEAVES, "mixture": Mixture(LEAVES, 2), "vt": VT(LEAVES, 3), "hfv": HFV(LEAVES, 3)}
MESSAGE = "column 1 of {} is 90 in row 17, to which its histogram leaves give no density"


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_row_beyond_a_histogram_is_named(spec: Specification) -> None:
    rows, validation = pinwheel(300)
    model = spec.build(rows, seeded())
    far = validation.clone()
    far[17, 1] = 90.0
    with torch.no_grad():
        unreached = model.log_unnormalized(far) == -torch.inf
    assert unreached.nonzero().flatten().tolist() == [17]
    with pytest.raises(ValueError, match=MESSAGE.format("X_val")):
        Adam(epochs=1).fit(model, rows, far, generator=seeded())
    with pytest.raises(ValueError, match=MESSAGE.format("X")):
        Adam(epochs=1).fit(model, far, generator=seeded())
    weights = torch.ones(len(far))
    weights[17] = 0.0
    Adam(epochs=1).fit(model, far, rows[:50], weights=weights, generator=seeded())


def test_a_code_that_was_never_seen_is_named() -> None:
    x = torch.randn(40, 3, generator=seeded())
    x[:, 1], x[:, 2] = torch.arange(40) % 3, torch.arange(40) % 7
    model = Circuit(units=2, leaf={1: "categorical", 2: "categorical"}).build(x, seeded())
    odd = x.clone()
    odd[4, 1] = 3.0  # which column 2 has
    with pytest.raises(ValueError, match="column 1 of X_val is 3 in row 4, to which its categorical leaves"):
        Adam(epochs=1).fit(model, x, odd, generator=seeded())
