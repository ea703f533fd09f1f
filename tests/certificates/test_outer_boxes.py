"""Outer boxes against the exact vertices of their cells, enumerated in rational arithmetic."""

# K cells, d variables

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from voronoi_circuits.certificates.outer_boxes import _Cell, outer_box

INF = float("inf")


def solve(rows, right):
    """The exact solution of a square system, None where it is singular."""
    system = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for column in range(len(system)):
        pivot = next((r for r in range(column, len(system)) if system[r][column]), None)
        if pivot is None:
            return None
        system[column], system[pivot] = system[pivot], system[column]
        system[column] = [x / system[column][column] for x in system[column]]
        for r in range(len(system)):
            if r != column and system[r][column]:
                system[r] = [
                    x - system[r][column] * p for x, p in zip(system[r], system[column], strict=True)
                ]
    return [row[-1] for row in system]


def exact_rows(points, k, low, high):
    """All half-spaces a·x ≤ b of V_k within [low, high], in rationals."""
    d, own = points.shape[1], [Fraction(x) for x in points[k].tolist()]
    rows = []
    for other in np.delete(points, k, 0).tolist():
        a = [Fraction(x) - c for x, c in zip(other, own, strict=True)]
        rows.append((a, sum(n * (Fraction(x) + c) for n, x, c in zip(a, other, own, strict=True)) / 2))
    for i, sign in product(range(d), (1, -1)):
        unit = [Fraction(sign if i == n else 0) for n in range(d)]
        rows.append((unit, Fraction(float(high[i])) if sign == 1 else -Fraction(float(low[i]))))
    return rows


def exact_box(points, k, low, high):
    """The tightest box around V_k within a finite [low, high], exactly; None where it is empty."""
    rows, vertices = exact_rows(points, k, low, high), []
    for chosen in combinations(rows, points.shape[1]):
        x = solve([a for a, _ in chosen], [b for _, b in chosen])
        if x is not None and all(sum(n * v for n, v in zip(a, x, strict=True)) <= b for a, b in rows):
            vertices.append(x)
    if not vertices:
        return None
    return [min(side) for side in zip(*vertices, strict=True)], [
        max(side) for side in zip(*vertices, strict=True)
    ]


def cases(count, d, seed=0):
    """Random centroids and a finite domain, some at an offset; a few centroids lie outside the domain."""
    rng = np.random.default_rng(seed)
    for n in range(count):
        cells = int(rng.integers(2, 7 if d == 2 else 6))
        points = rng.normal(size=(cells, d)) + (1000.0 if n % 3 == 2 else 0.0)
        centre = points.mean(0)
        yield points, centre - rng.uniform(0.5, 3, size=d), centre + rng.uniform(0.5, 3, size=d)


@pytest.mark.parametrize("d, count", [(1, 15), (2, 25), (3, 6)])
def test_outer_box_computation(d, count):
    """Prop. "Outer Box Computation": around every vertex, and within rounding of the tightest box."""
    for points, low, high in cases(count, d):
        below, above = outer_box(*map(torch.tensor, (points, low, high)))
        for k in range(len(points)):
            exact = exact_box(points, k, low, high)
            if exact is None:
                assert below[k].tolist() == above[k].tolist() == points[k].tolist()
                continue
            for i in range(d):
                tolerance = 1e-11 * (1 + abs(points).max())
                assert 0 <= exact[0][i] - Fraction(below[k, i].item()) < tolerance
                assert 0 <= Fraction(above[k, i].item()) - exact[1][i] < tolerance


@pytest.mark.parametrize("d, count", [(1, 10), (2, 20), (3, 4)])
def test_an_infinite_domain_is_bounded_where_the_cell_is(d, count):
    """A side is finite exactly where the cell does not reach the end of a huge box."""
    huge = 2.0**100
    for points, _, _ in cases(count, d, seed=1):
        end = torch.full((d,), INF)
        below, above = outer_box(torch.tensor(points), -end, end)
        for k in range(len(points)):
            exact = exact_box(points, k, np.full(d, -huge), np.full(d, huge))
            for i, side in product(range(d), (0, 1)):
                ours, truth = (below, above)[side][k, i].item(), exact[side][i]
                if abs(truth) > 1e6:
                    assert ours == (INF if side else -INF)
                else:
                    gap = Fraction(ours) - truth if side else truth - Fraction(ours)
                    assert 0 <= gap < 1e-9 * (1 + abs(points).max())


def solver(points, k, low, high, i):
    """max x_i over V_k within the domain as a user of SciPy finds it: the value, and the dual's."""
    others = np.delete(points, k, 0)
    normals = others - points[k]
    offsets = (normals * (others + points[k])).sum(1) / 2
    goal = np.zeros(points.shape[1])
    goal[i] = -1.0
    found = linprog(goal, normals, offsets, bounds=np.stack([low, high], 1), method="highs")
    if found.status != 0:
        return None
    ends = found.upper.marginals @ high + found.lower.marginals @ low
    return -found.fun, -(found.ineqlin.marginals @ offsets + ends)


def test_a_solver_s_own_optimum_is_no_bound():
    """The planted error: an LP's primal value, or its dual's without the residual, taken as a bound."""
    below_truth = {"primal": 0, "dual": 0, "proven": 0}
    for points, low, high in cases(40, 2, seed=2):
        proven = outer_box(*map(torch.tensor, (points, low, high)))[1]
        for k, i in product(range(len(points)), range(2)):
            exact, found = exact_box(points, k, low, high), solver(points, k, low, high, i)
            if exact is None or found is None:
                continue
            below_truth["primal"] += Fraction(found[0]) < exact[1][i]
            below_truth["dual"] += Fraction(found[1]) < exact[1][i]
            below_truth["proven"] += Fraction(proven[k, i].item()) < exact[1][i]
    assert below_truth["proven"] == 0
    assert below_truth["primal"] > 10
    assert below_truth["dual"] > 10


@settings(max_examples=60)
@given(st.lists(st.floats(0, 10), min_size=4, max_size=4), st.integers(0, 1), st.sampled_from([1, -1]))
def test_any_multipliers_prove_a_bound(multipliers, i, sign):
    """Weak duality, exactly: whatever y ≥ 0 the solver proposes, the bound is on the right side."""
    points = np.array([[0.1, 0.2], [1.3, 0.4], [-0.9, 0.7], [0.3, -1.1], [0.2, 1.7]])
    low, high = np.array([-2.0, -2.0]), np.array([1.5, 2.5])
    exact = exact_box(points, 0, low, high)
    cell = _Cell(points[1:], points[0], low, high)
    direction = [Fraction(sign if n == i else 0) for n in range(2)]
    bound = cell.bound(direction, np.array(multipliers), 1.0)
    truth = exact[1][i] if sign == 1 else -exact[0][i]
    assert bound + sign * Fraction(points[0, i]) >= truth


def test_no_multipliers_fail_to_prove_an_infinite_side():
    cell = _Cell(np.array([[1.0, 0.5]]), np.array([0.0, 0.0]), np.full(2, -INF), np.full(2, INF))
    assert cell.bound([Fraction(1), Fraction(0)], np.array([1.0]), 1.0) is None


def test_a_grid_s_cells_are_their_own_outer_boxes():
    points = torch.tensor(list(product([0.0, 1.0, 3.0], [0.0, 2.0, 3.0]))).double()
    end = torch.full((2,), INF)
    below, above = outer_box(points, -end, end)
    first, second = torch.tensor([-INF, 0.5, 2.0, INF]), torch.tensor([-INF, 1.0, 2.5, INF])
    for k, (i, j) in enumerate(product(range(3), range(3))):
        assert below[k].tolist() == pytest.approx([first[i].item(), second[j].item()], abs=1e-14)
        assert above[k].tolist() == pytest.approx([first[i + 1].item(), second[j + 1].item()], abs=1e-14)


def test_a_cell_that_misses_the_domain_is_proven_empty():
    """Centroid 1 lies outside and so does its cell; centroid 2 lies outside, but its cell reaches in."""
    points = torch.tensor([[0.0, 0.0], [9.0, 9.0], [3.0, 0.0]]).double()
    low, high = torch.tensor([-1.0, -1.0]), torch.tensor([2.0, 1.0])
    below, above = outer_box(points, low, high)
    assert below[1].tolist() == above[1].tolist() == [9.0, 9.0]
    assert below[2].tolist() == pytest.approx([1.5, -1.0])
    assert above[2].tolist() == pytest.approx([2.0, 1.0])


def test_emptiness_in_a_half_infinite_domain():
    points = torch.tensor([[0.0, 0.0], [-9.0, 1.0]]).double()
    below, above = outer_box(points, torch.tensor([0.0, -5.0]), torch.tensor([INF, 5.0]))
    assert below[1].tolist() == above[1].tolist() == [-9.0, 1.0]
    assert above[0].tolist() == [INF, 5.0]


def test_every_cell_may_have_a_domain_of_its_own():
    points = torch.tensor([[0.0], [4.0]]).double()
    below, above = outer_box(points, torch.tensor([[-1.0], [1.0]]), torch.tensor([[9.0], [INF]]))
    assert torch.cat([below, above], 1).tolist() == [[-1.0, 2.0], [2.0, INF]]


def test_one_cell_is_the_domain_and_equal_centroids_own_one_cell():
    low, high = torch.tensor([-1.0, -INF]), torch.tensor([3.0, INF])
    below, above = outer_box(torch.zeros(1, 2), low, high)
    assert torch.equal(below[0], low.double())
    assert torch.equal(above[0], high.double())
    below, above = outer_box(torch.zeros(2, 2), low, high)
    assert torch.equal(above[0], high.double())
    assert below[1].tolist() == above[1].tolist() == [0.0, 0.0]


def test_more_variables_hold_samples_of_the_cell():
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(10, 6, generator=generator, dtype=torch.float64)
    low, high = points.amin(0) - 0.2, points.amax(0) + 0.2
    below, above = outer_box(points, low, high)
    rows = low + (high - low) * torch.rand(100_000, 6, generator=generator, dtype=torch.float64)
    cells = torch.cdist(rows, points).argmin(1)
    assert ((rows >= below[cells] - 1e-9) & (rows <= above[cells] + 1e-9)).all()
    assert ((above - below) < (high - low) - 1e-6).any()


@pytest.mark.parametrize(
    "low, high, message",
    [
        (torch.zeros(3), torch.ones(2), r"low must have shape \(2,\) or \(2, 2\)"),
        (torch.zeros(2), torch.tensor([1.0, 0.0]), "cell 0, variable 1"),
        (torch.tensor([0.0, torch.nan]), torch.ones(2), "cell 0, variable 1"),
    ],
)
def test_bad_domains_are_named(low, high, message):
    with pytest.raises(ValueError, match=message):
        outer_box(torch.tensor([[0.0, 0.0], [4.0, 0.0]]), low, high)
