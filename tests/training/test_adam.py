"""The learner: Adam itself, weights, cells, objectives, seeds, and what it refuses."""

import math
import re

import pytest
import torch
from sklearn.base import clone
from torch import Tensor

from tests.training.scenes import SPECS, built, pinwheel, same, seeded, state
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.training import Adam
from voronoi_circuits.training.cells import cells_of


def textbook_adam(parameters: list[Tensor], loss, steps: int, rate: float) -> None:
    """Kingma and Ba's Algorithm 1, with their constants."""
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    for t in range(1, steps + 1):
        gradients = torch.autograd.grad(loss(), parameters)
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            p.data -= rate * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)


@pytest.mark.parametrize("name", ["circuit", "vt", "hfv"])
def test_the_steps_are_adams_on_the_soft_likelihood(name: str) -> None:
    rows = pinwheel(100)[0].double()
    model, twin = (built(name, rows.float()).double() for _ in range(2))
    Adam(epochs=4, batch_size=100, learning_rate=0.05, anneal=(3.0, 3.0)).fit(model, rows, generator=seeded())
    textbook_adam(list(twin.parameters()), lambda: -twin.soft_log(rows, 3.0).mean(), 4, 0.05)
    for (key, found), expected in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert torch.allclose(found, expected, rtol=1e-6, atol=1e-9), key


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("routing", ["soft", "hard"])
def test_one_seed_gives_one_model(name: str, routing: str) -> None:
    rows, validation = pinwheel(200)
    models = [built(name, rows) for _ in range(3)]
    for model, seed in zip(models, (5, 5, 6), strict=True):
        learner = Adam(epochs=2, batch_size=60, routing=routing)
        learner.fit(model, rows, validation, generator=seeded(seed))
    first, second, other = map(state, models)
    assert same(first, second)
    assert not same(first, other)


@pytest.mark.parametrize("name", ["circuit", "vt"])
def test_a_weight_of_two_is_a_row_twice(name: str) -> None:
    rows = pinwheel(60)[0].double()
    weights = torch.ones(60)
    weights[:20] = 2.0
    weighted, repeated = (built(name, rows.float()).double() for _ in range(2))
    learner = Adam(epochs=3, batch_size=1000, anneal=(1, 50))
    learner.fit(weighted, rows, weights=3 * weights, generator=seeded())
    learner.fit(repeated, torch.cat([rows, rows[:20]]), generator=seeded())
    for found, expected in zip(weighted.parameters(), repeated.parameters(), strict=True):
        assert torch.allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("routing", ["soft", "hard"])
def test_a_weight_of_zero_is_no_row(routing: str) -> None:
    rows, _ = pinwheel(80)
    weights = (torch.arange(80) % 3 > 0).float()
    weighted, dropped = (built("vt", rows) for _ in range(2))
    learner = Adam(epochs=2, batch_size=20, routing=routing)
    far = rows.clone()
    far[weights == 0] = 1e6
    learner.fit(weighted, far, weights=weights, generator=seeded())
    learner.fit(dropped, rows[weights > 0], generator=seeded())
    assert same(state(weighted), state(dropped))


@pytest.mark.parametrize("name", ["vt", "vt-shared", "hfv"])
def test_centroids_learn_unless_they_are_fixed(name: str) -> None:
    rows, _ = pinwheel(300)
    for cells, moved in (("learned", True), ("fixed", False)):
        model = built(name, rows)
        before = [found.centroids.detach().clone() for found in cells_of(model)]
        others = state(model)
        Adam(epochs=2, cells=cells).fit(model, rows, generator=seeded())
        after = [found.centroids for found in cells_of(model)]
        assert all(torch.equal(a, b) != moved for a, b in zip(before, after, strict=True))
        assert all(parameter.requires_grad for parameter in model.parameters())
        assert not same(others, state(model))


@pytest.mark.parametrize("name", ["vt", "vt-shared", "hfv"])
def test_hard_routing_learns_experts_and_leaves_centroids(name: str) -> None:
    rows, _ = pinwheel(300)
    model = built(name, rows)
    before = [found.centroids.detach().clone() for found in cells_of(model)]
    fitted = Adam(epochs=4, batch_size=50, routing="hard").fit(model, rows, generator=seeded())
    assert all(map(torch.equal, before, [found.centroids for found in cells_of(model)]))
    loss = fitted.history["loss"]
    assert loss[-1] < loss[0] - 0.05
    assert fitted.history["alpha"] == [math.inf] * 4


@pytest.mark.parametrize("name", ["vt", "vt-shared", "hfv"])
def test_reestimated_centroids_are_means_of_the_rows_they_owned(name: str) -> None:
    rows, _ = pinwheel(300)
    model = built(name, rows)
    centroids = cells_of(model)[0].centroids
    centroids.data.add_(0.3 * torch.randn(centroids.shape, generator=seeded(1)))
    points, variables = cells_of(model)[0].points, cells_of(model)[0].variables
    x = rows[:, variables]
    owner = (x.unsqueeze(1) - points).square().sum(-1).argmin(1)
    expected = torch.stack([x[owner == k].mean(0) for k in range(len(points))])
    Adam(epochs=1, routing="hard", cells="reestimated").fit(model, rows, generator=seeded())
    assert torch.allclose(cells_of(model)[0].points, expected, atol=1e-5)


def test_the_normalised_phase_climbs_the_normalised_likelihood() -> None:
    rows, validation = pinwheel()
    scores: dict[str, float] = {}
    for objective in ("likelihood", "normalized"):
        model = built("hfv", rows)
        assert isinstance(model, HFVModel)
        fitted = Adam(epochs=20, batch_size=100, objective=objective).fit(
            model, rows, validation, generator=seeded()
        )
        with torch.no_grad():
            scores[objective] = model.log_prob(validation.double()).mean().item()
        assert fitted.history["alpha"][-4:].count(math.inf) == (4 if objective == "normalized" else 0)
        assert max(fitted.history["lower"]) == pytest.approx(scores[objective], abs=1e-4)
    assert scores["normalized"] > scores["likelihood"] + 0.02


def test_the_normalised_loss_is_the_negative_log_likelihood() -> None:
    rows = pinwheel(100)[0].double()
    model = built("hfv", rows.float()).double()
    assert isinstance(model, ExactModel)
    with torch.no_grad():
        start = -model.log_prob(rows).mean().item()
    fitted = Adam(epochs=1, batch_size=100, objective="normalized").fit(model, rows, generator=seeded())
    assert fitted.history["loss"] == pytest.approx([start], rel=1e-9)


@pytest.mark.parametrize("name", SPECS)
def test_the_papers_protocol_runs(name: str) -> None:
    rows, validation = pinwheel(2000)
    learner = Adam(epochs=2, batch_size=500, learning_rate=0.01, anneal=(1.0, 50.0))
    model = built(name, rows)
    fitted = learner.fit(model, rows, validation, generator=seeded())
    history = fitted.history
    assert fitted.best_epoch == 1 + max((0, 1), key=lambda epoch: history["lower"][epoch])
    assert all(
        math.isfinite(value) for column in ("loss", "soft", "hard", "lower") for value in history[column]
    )
    gated = isinstance(model, VTModel | HFVModel)
    assert history["alpha"] == [1.0, 50.0] if gated else all(math.isnan(a) for a in history["alpha"])


@pytest.mark.parametrize(
    "given,message",
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"epochs": 2.5}, "epochs must be"),
        ({"epochs": True}, "epochs must be"),
        ({"batch_size": -1}, "batch_size must be"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive, finite number"),
        ({"learning_rate": math.inf}, "learning_rate must be"),
        ({"learning_rate": "fast"}, "learning_rate must be"),
        ({"anneal": (1.0, -2.0)}, "anneal must be a positive, finite number, not -2.0"),
        ({"anneal": (1.0, 2.0, 3.0)}, "anneal must be"),
        ({"anneal": 50.0}, "anneal must be"),
        ({"anneal": "autos"}, "unknown anneal 'autos' .did you mean 'auto'"),
        ({"routing": "sofd"}, "unknown routing 'sofd' .did you mean 'soft'"),
        ({"cells": "fix"}, "unknown cells 'fix' .did you mean 'fixed'"),
        ({"objective": "normalised"}, "unknown objective 'normalised' .did you mean 'normalized'"),
        ({"cells": "reestimated"}, "needs routing='hard'"),
        ({"patience": 0}, "patience must be"),
        ({"patience": 3}, "patience waits for a better validation score: give X_val"),
        ({"objective": "normalized"}, "needs an exact log Z, and this model is certified: region"),
    ],
)
def test_bad_parameters_are_named(given: dict, message: str) -> None:
    rows, _ = pinwheel(50)
    with pytest.raises(ValueError, match=message):
        Adam(**given).fit(built("vt", rows), rows, generator=seeded())


@pytest.mark.parametrize(
    "spoil,message",
    [
        (lambda x: x[:, :1], r"rows must be \(n, 2\)"),
        (lambda x: x.long(), "X must be floating point"),
        (lambda x: x.numpy(), "X must be a tensor of rows by columns, not ndarray"),
        (lambda x: x[:, 0], "X has shape"),
        (lambda x: x[:0], "X has no rows"),
        (lambda x: torch.where(x == x[7, 1], torch.inf, x), "column 1 of X is inf in row 7"),
        (lambda x: torch.where(x == x[7, 1], torch.nan, x), "column 1 of X is nan in row 7"),
    ],
)
def test_bad_rows_are_named(spoil, message: str) -> None:
    rows, _ = pinwheel(50)
    with pytest.raises(ValueError, match=message):
        Adam(epochs=1).fit(built("circuit", rows), spoil(rows), generator=seeded())
    with pytest.raises(ValueError, match=re.sub(r"\bX\b", "X_val", message)):
        Adam(epochs=1).fit(built("circuit", rows), rows, spoil(rows), generator=seeded())


@pytest.mark.parametrize(
    "weights", [torch.ones(49), -torch.ones(50), torch.zeros(50), torch.full((50,), torch.nan)]
)
def test_bad_weights_are_refused(weights: Tensor) -> None:
    rows, _ = pinwheel(50)
    with pytest.raises(ValueError, match="weights must be"):
        Adam(epochs=1).fit(built("circuit", rows), rows, weights=weights, generator=seeded())


def test_a_softened_model_is_refused() -> None:
    rows, _ = pinwheel(50)
    with pytest.raises(ValueError, match="then soften it"):
        Adam(epochs=1).fit(built("vt", rows).soften(3.0), rows, generator=seeded())


def test_the_learner_is_parameters_only() -> None:
    learner = Adam(epochs=-7, anneal=(1, 50), patience=4)
    twin = clone(learner)
    assert (
        twin.get_params()
        == learner.get_params()
        == {**Adam().get_params(), "epochs": -7, "anneal": (1, 50), "patience": 4}
    )
