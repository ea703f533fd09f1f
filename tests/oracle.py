"""Circuits by explicit loops over SciPy's leaves, and quadrature: the truth that models are tested against.

# B rows, D variables, U units; log values of a region (U, B)
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy import special

from tests.circuits.leaves.families import bins, codes, mass, normal
from tests.circuits.leaves.families import log_density as log_density_of
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel

TWINS = {"gaussian": normal, "categorical": codes, "histogram": bins}
Array = np.ndarray


def log(x: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(x)


def is_normal(twin: Any) -> bool:
    return getattr(getattr(twin, "dist", None), "name", "") == "norm"


def log_density(twin: Any, x: Array) -> Array:
    """log p(x), of a normal by its own logarithm: the density itself underflows."""
    return twin.logpdf(x) if is_normal(twin) else log_density_of(twin, x)


def log_mass(twin: Any, low: float, high: float) -> float:
    """log P(low <= X <= high), of a normal by its logarithms in the nearer tail."""
    if low > high:
        return -np.inf
    if not is_normal(twin):
        return log(mass(twin, low, high))
    far, near = (
        (twin.logcdf(low), twin.logcdf(high)) if low < twin.mean() else (twin.logsf(high), twin.logsf(low))
    )
    return near + log(-np.expm1(far - near))


def log_sum(terms: Sequence[Array]) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return special.logsumexp(np.stack(list(terms)), axis=0)


def evaluate(
    circuit: FoldedCircuit,
    x: Array,
    low: Array | None = None,
    high: Array | None = None,
    *,
    expert: int = 0,
    gates: Mapping[int, Array] | None = None,
    supports: Mapping[int, tuple[Array, Array]] | None = None,
    routes: Mapping[int, Array] | None = None,
) -> list[Array]:
    """The log values (U, B) of every region: density at a number, mass of [low, high] at a NaN."""
    regions, values = circuit.graph.regions, list[Array]()
    for index, region in enumerate(regions):
        children = [values[c] for c in region.children]
        if region.kind == "leaf":
            out = _leaf(circuit, index, expert, x, low, high, (supports or {}).get(index))
        else:
            weights = [log(w[expert].detach().numpy()) for w in circuit.weights(index)]
            out = np.stack(
                [_unit(circuit, index, o, weights, children, routes or {}) for o in range(region.units)]
            )
        values.append(out + (gates or {}).get(index, 0.0))
    return values


def _leaf(circuit, index, expert, x, low, high, support) -> Array:
    region = circuit.graph.regions[index]
    leaf, position = circuit.leaf(index)
    variable, rows = region.scope[0], len(x)
    out = np.empty((region.units, rows))
    points = x[:, variable]
    missing = np.isnan(points)
    for unit in range(region.units):
        twin = TWINS[region.leaf](leaf, (expert, position, unit))
        left, right = (-np.inf, np.inf) if support is None else (support[0][unit], support[1][unit])
        inside = (points > left) & (points <= right)
        out[unit] = np.where(inside, log_density(twin, np.where(missing, 0.0, points)), -np.inf)
        for row in np.flatnonzero(missing):
            a = left if low is None else max(left, low[row, variable])
            b = right if high is None else min(right, high[row, variable])
            out[unit, row] = log_mass(twin, a, b)
    return out


def _unit(circuit, index, o, weights, children, routes) -> Array:
    region = circuit.graph.regions[index]
    if region.kind == "sum":
        inputs = [unit for child in children for unit in child]
        return log_sum([weights[0][o, i] + v for i, v in enumerate(inputs)])
    if region.kind == "cp":
        mixes = zip(weights, children, strict=True)
        return sum(log_sum([w[o, i] + v for i, v in enumerate(child)]) for w, child in mixes)
    if region.kind == "tucker":
        a, b = children
        pairs = itertools.product(range(len(a)), range(len(b)))
        return log_sum([weights[0][o, i, j] + a[i] + b[j] for i, j in pairs])
    return _joint_unit(circuit, index, o, weights[0], children, routes)


def _joint_unit(circuit, index, o, weight, children, routes) -> Array:
    """Σ over joint cells that belong to the own cell, over Σ of their weights."""
    regions = circuit.graph.regions
    region = regions[index]
    cell, unit = divmod(o, region.units // region.cells)
    cells = [regions[c].cells for c in region.children]
    sizes = [regions[c].units // regions[c].cells for c in region.children]
    top, bottom = [], []
    for joint, own in enumerate(itertools.product(*map(range, cells))):
        share = routes[index][cell, joint] if index in routes else 0.0
        for units in itertools.product(*map(range, sizes)):
            log_weight = share + weight[(unit, joint, *units)]
            places = [k * n + u for k, n, u in zip(own, sizes, units, strict=True)]
            product = sum(child[place] for child, place in zip(children, places, strict=True))
            top.append(log_weight + product)
            bottom.append(np.full_like(product, log_weight))
    if np.isneginf(bottom).all():
        return np.full_like(top[0], -np.inf)
    return log_sum(top) - log_sum(bottom)


def nearest(points: Array, centroids: Array) -> Array:
    """The nearest centroid of each point, by the definition; ties to the lower index."""
    return ((points[:, None] - centroids) ** 2).sum(-1).argmin(1)


def hfv_supports(model: HFVModel) -> dict[int, tuple[Array, Array]]:
    """Half-way points between the sorted centroids of each gated leaf."""
    out = {}
    for key, cells in model.intervals.items():
        region = model.experts.circuit.graph.regions[int(key)]
        c = np.sort(cells.centroids.detach().double().numpy()[0])
        edges = np.concatenate([[-np.inf], (c[1:] + c[:-1]) / 2, [np.inf]])
        per_cell = region.units // region.cells
        out[int(key)] = (edges[:-1].repeat(per_cell), edges[1:].repeat(per_cell))
    return out


def hfv_routes(model: HFVModel) -> dict[int, Array]:
    """Each joint cell belongs to the coarse cell nearest to its grid point; others are dead."""
    regions = model.experts.circuit.graph.regions
    centres, scopes, alive, routes = {}, {}, {}, {}
    for index, region in enumerate(regions):
        key = str(index)
        alive[index] = [True] * region.cells
        centres[index], scopes[index] = np.zeros((1, 0)), []
        if key in model.intervals and region.cells > 1:
            centres[index] = np.sort(model.intervals[key].centroids.detach().double().numpy()[0])[:, None]
            scopes[index] = list(region.scope)
        if region.kind != "joint":
            continue
        children = region.children
        order = [v for c in children for v in scopes[c]]
        columns = np.argsort(order)
        route = np.full((region.cells, int(np.prod([regions[c].cells for c in children]))), -np.inf)
        if region.cells > 1:
            centres[index] = model.coarse[key].centroids.detach().double().numpy()
            scopes[index] = sorted(order)
        for joint, own in enumerate(itertools.product(*(range(regions[c].cells) for c in children))):
            if all(alive[c][k] for c, k in zip(children, own, strict=True)):
                point = np.concatenate([centres[c][k] for c, k in zip(children, own, strict=True)])[columns]
                owner = nearest(point[None], centres[index])[0] if region.cells > 1 else 0
                route[owner, joint] = 0.0
        alive[index] = [bool((row == 0).any()) for row in route]
        routes[index] = route
    return routes


def hfv_log_f(model: HFVModel, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """log f, or its integral, of an HFV model by its definition."""
    circuit = model.experts.circuit
    return evaluate(circuit, x, low, high, supports=hfv_supports(model), routes=hfv_routes(model))[-1][0]


def vt_log_f(model: VTModel, x: Array, *, gated: bool = True) -> Array:
    """log Σ_k g_k π_k p_k, with every gate by its definition."""
    experts = model.experts
    log_weights = (
        np.zeros(1) if experts.logits is None else special.log_softmax(experts.logits.detach().double())
    )
    gates, at_root = {}, np.zeros((experts.count, len(x)))
    for gate in model.placed if gated else []:
        cells = nearest(x[:, list(gate.variables)], gate.tessellation.centroids.detach().double().numpy())
        log_gate = log((np.arange(gate.n_cells)[:, None] == cells).astype(float))
        if gate.region == experts.root:
            at_root = log_gate
        else:
            gates[gate.region] = log_gate
    roots = [
        evaluate(experts.circuit, x, expert=e, gates=gates)[-1] for e in range(experts.circuit.n_experts)
    ]
    return log_sum(np.concatenate(roots) + at_root + np.asarray(log_weights)[:, None])


def nodes(low: float, high: float, breaks: Sequence[float] = (), width: float = 0.5, order: int = 12):
    """Gauss-Legendre nodes and weights on panels that end at the breaks and are no wider than `width`."""
    inner = sorted(b for b in breaks if low < b < high)
    points, weights = np.polynomial.legendre.leggauss(order)
    xs, ws = [], []
    for a, b in itertools.pairwise([low, *inner, high]):
        sides = np.linspace(a, b, int(np.ceil((b - a) / width)) + 1)
        half = np.diff(sides) / 2
        xs.append(((sides[:-1] + half)[:, None] + half[:, None] * points).ravel())
        ws.append((half[:, None] * weights).ravel())
    return np.concatenate(xs), np.concatenate(ws)


def bisectors(centroids: Array) -> list[tuple[Array, float]]:
    """The hyperplanes a.x = b half-way between every two centroids."""
    pairs = itertools.combinations(centroids, 2)
    return [(d - c, float((d @ d - c @ c) / 2)) for c, d in pairs]


def grid_2d(
    low: float, high: float, planes: Sequence[tuple[Array, float]], width: float = 0.5, order: int = 12
):
    """Nodes (N, 2) and weights for functions that are smooth between lines: panels end where these cross."""
    corners = []
    for (a, s), (b, t) in itertools.combinations(planes, 2):
        if abs(np.linalg.det([a, b])) > 1e-12:
            corners.append(np.linalg.solve([a, b], [s, t])[0])
    corners += [s / a[0] for a, s in planes if abs(a[1]) < 1e-12]
    corners += [(s - a[1] * y) / a[0] for a, s in planes for y in (low, high) if abs(a[0]) > 1e-12]
    xs, ws = nodes(low, high, corners, width, order)
    rows, weights = [], []
    for x, w in zip(xs, ws, strict=True):
        crossings = [(s - a[0] * x) / a[1] for a, s in planes if abs(a[1]) > 1e-12]
        ys, vs = nodes(low, high, crossings, width, order)
        rows.append(np.stack([np.full_like(ys, x), ys], 1))
        weights.append(w * vs)
    return torch.tensor(np.concatenate(rows)), torch.tensor(np.concatenate(weights))
