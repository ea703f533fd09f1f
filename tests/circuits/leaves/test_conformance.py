"""What every leaf family keeps, against its SciPy twin."""

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from tests.circuits.leaves.families import (
    EXPERTS,
    FAMILIES,
    INF,
    REGIONS,
    UNITS,
    Family,
    log_density,
    mass,
)
from voronoi_circuits.circuits import leaves
from voronoi_circuits.circuits.leaves import Leaf, UnanswerableQuestion, leaf_family

CELLS = list(itertools.product(range(EXPERTS), range(REGIONS), range(UNITS)))
every = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def rows(values: object) -> Tensor:
    """The same values asked of every region, (1, F, 1, B)."""
    return torch.as_tensor(values, dtype=torch.float64).expand(1, REGIONS, 1, -1)


def sides(family: Family) -> tuple[Tensor, Tensor]:
    low, high = zip(*family.intervals, strict=True)
    return rows(low), rows(high)


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def total(values: Tensor) -> Tensor:
    return torch.where(values == -INF, 0.0, values).sum()


def test_every_family_is_in_the_table() -> None:
    assert [family.name for family in FAMILIES] == list(leaves.FAMILIES)


@every
def test_density_is_the_twins(family: Family) -> None:
    leaf = family.leaf()
    answer = leaf.log_density(rows(family.points)).detach()
    assert answer.shape == (EXPERTS, REGIONS, UNITS, len(family.points))
    for at in CELLS:
        assert_allclose(answer[at], log_density(family.twin(leaf, at), family.points), rtol=1e-10, atol=1e-12)


@every
def test_mass_is_the_twins(family: Family) -> None:
    leaf = family.leaf()
    answer = leaf.log_mass(*sides(family)).detach().exp()
    assert answer.shape == (EXPERTS, REGIONS, UNITS, len(family.intervals))
    for at in CELLS:
        truth = [mass(family.twin(leaf, at), low, high) for low, high in family.intervals]
        assert_allclose(answer[at], truth, rtol=1e-9, atol=1e-15)


@every
def test_rows_and_sides_of_each_expert_and_unit(family: Family) -> None:
    leaf = family.leaf()
    shared = leaf.log_density(rows(family.points))
    own = torch.stack([rows(np.roll(family.points, e))[0] for e in range(EXPERTS)])
    for e, answer in enumerate(leaf.log_density(own)):
        assert torch.equal(answer, shared[e].roll(e, -1))
    low, high = sides(family)
    by_unit = [side.expand(1, -1, UNITS, -1).clone() for side in (low, high)]
    by_unit[0][:, :, 1], by_unit[1][:, :, 1] = 9.0, 8.0
    answer = leaf.log_mass(*by_unit)
    assert (answer[:, :, 1] == -INF).all()
    assert_allclose(answer[:, :, 2].detach(), leaf.log_mass(low, high)[:, :, 2].detach(), rtol=1e-14)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_whole_line_and_intervals_without_mass(family: Family, dtype: torch.dtype) -> None:
    leaf = family.leaf()
    low, high = (
        rows(s).to(dtype).requires_grad_() for s in ([-INF, 1.0, 2.5, INF, -INF], [INF, -1.0, 2.4, INF, -INF])
    )
    answer = leaf.log_mass(low, high)
    assert answer.dtype == dtype
    assert (answer[..., 0] == 0.0).all()
    assert (answer[..., 1:] == -INF).all()
    answer.sum().backward()
    for tensor in (low, high, *leaf.parameters()):
        assert tensor.grad is None or not tensor.grad.any()


@every
def test_moments_are_the_twins(family: Family) -> None:
    leaf = family.leaf()
    assert leaf.mean().dtype == leaf.variance().dtype == torch.float64
    for at in CELLS:
        twin = family.twin(leaf, at)
        assert_allclose(
            [leaf.mean()[at].item(), leaf.variance()[at].item()], [twin.mean(), twin.var()], rtol=1e-9
        )


@every
@pytest.mark.parametrize("interval", [(-INF, INF), (0.5, INF), (-INF, 0.8), (0.0, 1.3)])
def test_draws_follow_the_truncated_twin(family: Family, interval: tuple[float, float]) -> None:
    leaf, n = family.leaf(), 20000
    expert, region, unit = (torch.full((n,), i) for i in (2, 1, 3))
    low, high = (torch.full((n,), side, dtype=torch.float64) for side in interval)
    drawn = leaf.draw(expert, region, unit, low, high, seeded())
    assert drawn.dtype == torch.float64
    assert ((drawn >= low) & (drawn <= high)).all()
    twin = family.twin(leaf, (2, 1, 3))
    found, count = np.unique(drawn.numpy(), return_counts=True)
    share = [mass(twin, interval[0], x) / mass(twin, *interval) for x in found[:: max(1, len(found) // 200)]]
    empirical = (count.cumsum() / n)[:: max(1, len(found) // 200)]
    assert np.abs(empirical - share).max() < math.sqrt(
        math.log(2e9) / (2 * n)
    )  # Dvoretzky, Kiefer, Wolfowitz, Massart


@every
def test_each_draw_is_of_its_own_unit(family: Family) -> None:
    leaf, n = family.leaf(), 3000
    index = torch.tensor(CELLS).repeat_interleave(n, 0)
    line = torch.full((len(index),), INF, dtype=torch.float64)
    drawn = leaf.draw(*index.T, -line, line, seeded())
    assert torch.equal(drawn, leaf.draw(*index.T, -line, line, seeded()))
    mean, deviation = leaf.mean().detach().flatten(), leaf.variance().detach().sqrt().flatten()
    assert ((drawn.view(-1, n).mean(1) - mean).abs() < 6 * deviation / math.sqrt(n)).all()


@every
def test_nothing_to_draw_is_refused(family: Family) -> None:
    index = torch.tensor([0, 1])
    low, high = torch.tensor([-INF, 3.0]), torch.tensor([INF, 2.0])
    with pytest.raises(
        ValueError, match=rf"unit 1 of region 1 \({family.name}\) has no mass in \[3.0, 2.0\]"
    ):
        family.leaf().draw(index, index, index, low, high, seeded())


@every
def test_picked_experts_repeat_and_collect_their_gradients(family: Family) -> None:
    leaf, experts = family.leaf(), torch.tensor([2, 0, 2, 2, 1])
    asked = rows(family.points), sides(family)
    for ask in (
        lambda picked: leaf.log_density(asked[0], picked),
        lambda picked: leaf.log_mass(*asked[1], picked),
        leaf.mean,
        leaf.variance,
    ):
        assert torch.equal(ask(experts), ask(None)[experts])
        gradients = []
        for values in (ask(experts), ask(None)[experts]):
            leaf.zero_grad()
            total(values).backward()
            gradients.append([p.grad.clone() for p in leaf.parameters() if p.grad is not None])
        assert gradients[0]
        for one, other in zip(*gradients, strict=True):
            assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@every
def test_gradients_are_those_of_differences(family: Family) -> None:
    leaf = family.leaf(experts=2).double()
    names, values = zip(*leaf.named_parameters(), strict=True)
    low, high = sides(family)

    def answers(*values: Tensor) -> tuple[Tensor, Tensor]:
        density, masses = (
            torch.func.functional_call(leaf, dict(zip(names, values, strict=True)), (call,))
            for call in (lambda: leaf.log_density(rows(family.points)), lambda: leaf.log_mass(low, high))
        )
        return torch.where(density == -INF, 0.0, density), torch.where(masses == -INF, 0.0, masses)

    leaf.forward = lambda call: call()
    assert torch.autograd.gradcheck(answers, values, fast_mode=True)


@every
def test_answers_come_in_the_dtype_of_the_rows(family: Family) -> None:
    leaf = family.leaf()
    low, high = (side[..., :4] for side in sides(family))
    for ask in (
        lambda t: leaf.log_density(rows(family.points).to(t)),
        lambda t: leaf.log_mass(low.to(t), high.to(t)),
    ):
        single, double = ask(torch.float32), ask(torch.float64)
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        assert_allclose(single.detach(), double.detach(), rtol=2e-5, atol=2e-6)


@every
def test_a_state_is_read_back(family: Family) -> None:
    leaf, other = family.leaf(0), family.leaf(1)
    x = rows(family.points)
    assert not torch.equal(leaf.log_density(x), other.log_density(x))
    other.load_state_dict(leaf.state_dict())
    assert torch.equal(leaf.log_density(x), other.log_density(x))
    assert torch.equal(leaf.log_mass(*sides(family)), other.log_mass(*sides(family)))


@every
def test_a_start_fits_the_rows_and_tells_units_apart(family: Family) -> None:
    columns = family.columns(5)
    leaf = leaf_family(family.name)(EXPERTS, REGIONS, UNITS, **family.options)
    leaf.start(columns, seeded())
    for parameter in leaf.parameters():
        kinds = parameter.detach().view(EXPERTS * REGIONS * UNITS, -1)
        assert torch.unique(kinds, dim=0).shape == kinds.shape
    mixed = leaf.log_density(columns.T.view(1, REGIONS, 1, -1)).exp().mean(2).log()
    assert torch.isfinite(mixed).all()
    assert (mixed.mean(-1) > family.fit).all()
    again = leaf_family(family.name)(EXPERTS, REGIONS, UNITS, **family.options)
    again.start(columns, seeded())
    assert all(torch.equal(a, b) for a, b in zip(leaf.parameters(), again.parameters(), strict=True))


@every
def test_a_start_follows_the_weights_of_rows(family: Family) -> None:
    columns = family.columns(5, 400)
    below = columns[:, 0] <= columns[:, 0].median()
    weights = torch.stack([below, ~below, torch.ones(400)]).float()
    leaf = leaf_family(family.name)(EXPERTS, REGIONS, UNITS, **family.options)
    leaf.start(columns, seeded(), weights)
    low, high, both = leaf.mean()[:, 0].mean(-1)
    assert low < both < high
    assert leaf.variance()[:2, 0].max() < leaf.variance()[2, 0].max()


@every
@pytest.mark.parametrize(
    ("columns", "weights", "message"),
    [
        (torch.zeros(5, 3), None, r"columns must be \(rows, 2\), one for each region, not \(5, 3\)"),
        (
            torch.tensor([[0.0, 1.0], [0.0, math.nan]]),
            None,
            r"column\(s\) of region\(s\) \[1\] hold NaN or infinite",
        ),
        (torch.zeros(5, 2), torch.ones(1, 5), r"weights must be \(experts, rows\) = \(3, 5\), not \(1, 5\)"),
        (torch.zeros(5, 2), torch.zeros(3, 5), "positive on some row of each expert"),
        (torch.zeros(5, 2), -torch.ones(3, 5), "not negative"),
    ],
)
def test_a_bad_start_is_refused(
    family: Family, columns: Tensor, weights: Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        family.leaf().start(columns, seeded(), weights)


@every
def test_bad_options_are_refused(family: Family) -> None:
    kind = leaf_family(family.name)
    with pytest.raises(ValueError, match=f"a {family.name} leaf has no option 'colour'"):
        kind(1, 1, 1, colour="red", **family.options)
    with pytest.raises(ValueError, match="units must be at least 1, not 0"):
        kind(1, 1, 0, **family.options)


@every
def test_rounding_is_small_and_none_where_nothing_is(family: Family) -> None:
    leaf = family.leaf()
    slack = leaf.rounding(
        torch.tensor([-INF, 0.0, -1000.0], dtype=torch.float64).expand(5, REGIONS, UNITS, 3)
    )
    assert slack.shape == (5, REGIONS, UNITS, 3)
    assert (slack[..., 0] == 0).all()
    assert (slack[..., 1] > 0).all()
    assert (slack[..., 2] < 1e-10).all()


def test_a_question_without_an_answer_is_refused() -> None:
    class Silent(Leaf):
        family = "silent"

    leaf, one = Silent(1, 1, 1), torch.zeros(1)
    for question, ask in {
        "log density": lambda: leaf.log_density(one),
        "log mass of an interval": lambda: leaf.log_mass(one, one),
        "mean": leaf.mean,
        "variance": leaf.variance,
        "draws from an interval": lambda: leaf.draw(one, one, one, one, one),
        "a start from data": lambda: leaf.start(one),
        "a bound on its rounding": lambda: leaf.rounding(one),
    }.items():
        with pytest.raises(UnanswerableQuestion, match=f"a silent leaf cannot answer: {question}"):
            ask()


def test_an_unknown_family_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="no leaf family 'categoric': did you mean 'categorical'"):
        leaf_family("categoric")
    with pytest.raises(
        ValueError, match="no leaf family 'xyz': take one of 'gaussian', 'categorical', 'histogram'"
    ):
        leaf_family("xyz")
