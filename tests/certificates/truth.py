"""What ∫ f is, for models of the soundness suite: quadrature in one and two variables, samples in more.

# B rows, D variables, E experts, U units; an integral is an interval (low, high) of its log
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
from scipy import special, stats

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.region_graph import Region
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.vt import VTModel

Array = np.ndarray
ARITHMETIC = 1e-11
"""The relative error allowed to the evaluation below, in plain float64."""
DELTA = 1e-9
_TAIL = 40.0
_PANELS = 1500
_HUGE = 1e12


class Asked(NamedTuple):
    """One row: a number where there is evidence, NaN elsewhere, and the sides there; (D,) each."""

    x: Array
    low: Array
    high: Array


class Known(NamedTuple):
    """An interval that holds log ∫ f."""

    low: float
    high: float


def asked(model: VTModel, x: Array, low: Array | float = -np.inf, high: Array | float = np.inf) -> Asked:
    """The question within the model's domain."""
    left, right = (side.numpy() for side in model.domain_sides(torch.zeros(1, dtype=torch.float64)))
    return Asked(np.asarray(x, float), np.maximum(left, low), np.minimum(right, high))


# The circuit, by its definition, in NumPy and SciPy.


def log_mix(weights: Array, values: Array) -> Array:
    """log Σ_i w_oi exp(v_i): (E, O, I), (E, I, B) -> (E, O, B)."""
    top = values.max(1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        return np.log(weights @ np.exp(values - top)) + top


def log_leaf(circuit: FoldedCircuit, index: int, rows: Asked) -> Array:
    """Density where x is a number, mass of [low, high] elsewhere, (E, U, B)."""
    region = circuit.graph.regions[index]
    leaf, at = circuit.leaf(index)
    v = region.scope[0]
    x, low, high = (side[:, v] for side in rows)
    missing = np.isnan(x)
    x = np.where(missing, 0.0, x)
    with np.errstate(divide="ignore", invalid="ignore", under="ignore", over="ignore"):
        if region.leaf == "gaussian":
            mean = leaf.location[:, at].detach().double().numpy()[..., None]
            deviation = leaf.floor + np.exp(leaf.raw[:, at].detach().double().numpy()[..., None])
            a, b = (low - mean) / deviation, (high - mean) / deviation
            a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
            density = -(((x - mean) / deviation) ** 2) / 2 - np.log(deviation) - np.log(2 * np.pi) / 2
            mass = special.log_ndtr(b) + np.log(-np.expm1(special.log_ndtr(a) - special.log_ndtr(b)))
            return np.where(missing, np.where(a < b, mass, -np.inf), density)
        table = special.softmax(leaf.logits[:, at].detach().double().numpy(), -1)[..., None, :]
        if region.leaf == "categorical":
            codes = np.arange(leaf.parts)
            hit = (codes == x[:, None]) & ~missing[:, None]
            hit |= missing[:, None] & (codes >= low[:, None]) & (codes <= high[:, None])
            return np.log((table * hit).sum(-1))
        edges = leaf.edges[at].double().numpy()
        left, right = edges[:-1], edges[1:]
        covered = np.minimum(high[:, None], right) - np.maximum(low[:, None], left)
        share = np.where(
            missing[:, None], np.maximum(covered, 0), (x[:, None] >= left) & (x[:, None] < right)
        )
        return np.log((table * (share / (right - left))).sum(-1))


def log_values(model: VTModel, rows: Asked, cells: list[Array] | None = None) -> list[Array]:
    """The log values (E, U, B) of every region, with the cell of each row at each gate below the root."""
    experts = model.experts
    circuit, masks = experts.circuit, _masks(model, cells)
    values: list[Array] = []
    for index, region in enumerate(circuit.graph.regions):
        if region.kind == "leaf":
            out = log_leaf(circuit, index, rows)
        else:
            weights = [w.detach().numpy() for w in circuit.weights(index)]
            children = [values[c] for c in region.children]
            if region.kind == "sum":
                out = log_mix(weights[0], np.concatenate(children, 1))
            elif region.kind == "cp":
                out = sum(log_mix(w, v) for w, v in zip(weights, children, strict=True))
            else:
                pairs = children[0][:, :, None] + children[1][:, None]
                flat = (pairs.shape[0], -1, pairs.shape[-1])
                out = log_mix(weights[0].reshape(*weights[0].shape[:2], -1), pairs.reshape(flat))
        values.append(out + masks[index] if index in masks and index != experts.root else out)
    return values


def _masks(model: VTModel, cells: list[Array] | None) -> dict[int, Array]:
    """log g of every gate, (K, B), by region; none without cells."""
    if cells is None:
        return {}
    own = [np.arange(g.n_cells)[:, None] == c for g, c in zip(model.placed, cells, strict=True)]
    return {g.region: np.where(mask, 0.0, -np.inf) for g, mask in zip(model.placed, own, strict=True)}


def log_f(model: VTModel, rows: Asked, cells: list[Array] | None = None) -> Array:
    """log Σ_k g_k π_k p_k with the cell of each row at each gate given; ungated without; (B,)."""
    root = log_values(model, rows, cells)[-1].reshape(model.experts.count, -1)
    root = root + _masks(model, cells).get(model.experts.root, 0.0)
    return log_mix(root_weights(model)[None, None], root[None])[0, 0]


def root_weights(model: VTModel) -> Array:
    """π, (K,)."""
    logits = model.experts.logits
    return np.ones(1) if logits is None else special.softmax(logits.detach().double().numpy())


# Lines through the cells: exact masses between facets.


def _centroids(gate: VoronoiGate) -> Array:
    return gate.tessellation.centroids.detach().double().numpy()


def nearest(points: Array, centroids: Array) -> Array:
    """argmin_k |u − c_k|² by differences about a common centroid, ties to the lower index."""
    moved, base = points - centroids[0], centroids - centroids[0]
    return (-2 * moved @ base.T + (base**2).sum(1)).argmin(1)


def lines(model: VTModel, rows: Asked, axis: int) -> Array:
    """log ∫ f along one axis of every row (other variables that gates read are given), (B,)."""
    n = len(rows.x)
    low, high = rows.low[:, axis], rows.high[:, axis]
    cuts = [low[:, None], high[:, None]]
    for gate in model.placed:
        if axis not in gate.variables:
            continue
        c = _centroids(gate)
        at = gate.variables.index(axis)
        others = [i for i in range(c.shape[1]) if i != at]
        given = rows.x[:, [gate.variables[i] for i in others]]
        for p, q in itertools.combinations(c, 2):
            a, middle = q - p, (p + q) / 2
            if a[at]:
                cuts.append((middle[at] - ((given - middle[others]) @ a[others]) / a[at])[:, None])
    ends = np.sort(np.clip(np.concatenate(cuts, 1), low[:, None], high[:, None]), 1)
    left, right = ends[:, :-1], ends[:, 1:]
    inner = np.clip(left, -_HUGE, _HUGE), np.clip(right, -_HUGE, _HUGE)
    middle = inner[0] / 2 + inner[1] / 2
    line, segment = np.nonzero(left < right)
    points = rows.x[line].copy()
    points[:, axis] = middle[line, segment]
    cells = [nearest(points[:, list(g.variables)], _centroids(g)) for g in model.placed]
    first = np.ones(len(line), bool)
    first[1:] = (line[1:] != line[:-1]) | np.any([c[1:] != c[:-1] for c in cells], 0)
    start = np.flatnonzero(first)
    stop = np.append(start[1:], len(line)) - 1
    owner = line[start]
    side = rows.low[owner].copy(), rows.high[owner].copy()
    side[0][:, axis], side[1][:, axis] = left[owner, segment[start]], right[line[stop], segment[stop]]
    found = log_f(model, Asked(rows.x[owner], *side), [c[start] for c in cells])
    top = np.full(n, -np.inf)
    np.maximum.at(top, owner, found)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.zeros(n)
    np.add.at(total, owner, np.exp(found - top[owner]))
    with np.errstate(divide="ignore"):
        return np.log(total) + top


# Quadrature across the lines.


def by_quadrature(model: VTModel, question: Asked) -> Known:
    """log ∫ f where gates read at most two missing variables."""
    read = sorted({v for gate in model.placed for v in gate.variables if np.isnan(question.x[v])})
    rows = Asked(*(side[None] for side in question))
    if any(not low < high for low, high in zip(question.low[read], question.high[read], strict=True)):
        return Known(-np.inf, -np.inf)
    if not read:
        cells = [nearest(rows.x[:, list(g.variables)], _centroids(g)) for g in model.placed]
        return _about(float(log_f(model, rows, cells)[0]), 0.0)
    if len(read) == 1:
        return _about(float(lines(model, rows, read[0])[0]), 0.0)
    outer, inner = read

    def along(nodes: Array) -> Array:
        repeated = [np.repeat(side, len(nodes), 0) for side in rows]
        repeated[0][:, outer] = nodes
        return lines(model, Asked(*repeated), inner)

    breaks = _breaks(model, question, outer, inner)
    reach = float(along((breaks[:-1, None] + np.diff(breaks)[:, None] * (_NODES + 1) / 2).ravel()).max())
    if reach == -np.inf:
        return Known(-np.inf, -np.inf)
    value, error = _adaptive(lambda nodes: np.exp(along(nodes) - reach), breaks)
    return _about(float(np.log(value)) + reach, error / value)


def _about(value: float, error: float) -> Known:
    slack = ARITHMETIC * (1 + abs(value)) + error if value > -np.inf else 0.0
    return Known(value - slack, value + slack)


def _leaves(model: VTModel, variable: int) -> tuple[Array, Array]:
    """Means and deviations of every leaf of a variable."""
    circuit = model.experts.circuit
    found = []
    for index, region in enumerate(circuit.graph.regions):
        if region.kind == "leaf" and region.scope == (variable,):
            leaf, at = circuit.leaf(index)
            found.append([part[:, at].detach().flatten().numpy() for part in (leaf.mean(), leaf.variance())])
    mean, variance = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return mean, np.sqrt(variance)


def _breaks(model: VTModel, question: Asked, outer: int, inner: int) -> Array:
    """Where the lines' integrals bend or turn fast: leaves, vertices, facets that pass a narrow leaf."""
    mean, deviation = _leaves(model, outer)
    low = max(question.low[outer], (mean - _TAIL * deviation).min())
    high = min(question.high[outer], (mean + _TAIL * deviation).max())
    if low >= high:
        low, high = question.low[outer], question.high[outer]
    found = [(mean + j * deviation) for j in (-12, -6, -3, -1, 0, 1, 3, 6, 12)]
    within, width = _leaves(model, inner)
    narrow = width < 0.05 * width.max()
    levels = [question.low[inner], question.high[inner]]
    levels += [m + j * s for m, s in zip(within[narrow], width[narrow], strict=True) for j in (-3, 0, 3)]
    for index, region in enumerate(model.experts.circuit.graph.regions):
        if region.leaf == "histogram" and region.scope[0] in (inner, outer):
            leaf, at = model.experts.circuit.leaf(index)
            edges = leaf.edges[at].double().numpy()
            levels += list(edges) if region.scope[0] == inner else []
            found += [edges] if region.scope[0] == outer else []
    for gate in model.placed:
        if not set(gate.variables) & {outer, inner}:
            continue
        given = question.x[list(gate.variables)]
        o, i = (gate.variables.index(v) if v in gate.variables else None for v in (outer, inner))
        facets = []
        for p, q in itertools.combinations(_centroids(gate), 2):
            a, known = q - p, ~np.isnan(given)
            right = a @ ((p + q) / 2) - a[known] @ given[known]
            facets.append((0.0 if o is None else a[o], 0.0 if i is None else a[i], right))
        for a, b, right in facets:
            if a:
                found.append(np.array([(right - b * t) / a for t in levels if np.isfinite(t)]))
                found.append(np.array([right / a] if b == 0 else []))
        for (a, b, right), (c, e, other) in itertools.combinations(facets, 2):
            if a * e - b * c:
                found.append(np.array([(right * e - other * b) / (a * e - b * c)]))
    cuts = np.concatenate(found)
    return np.unique(np.concatenate([[low], cuts[(cuts > low) & (cuts < high)], [high]]))


_NODES, _KRONROD = np.array([
    (0.991455371120812639206854697526329, 0.022935322010529224963732008058970),
    (0.949107912342758524526189684047851, 0.063092092629978553290700663189204),
    (0.864864423359769072789712788640926, 0.104790010322250183839876322541518),
    (0.741531185599394439863864773280788, 0.140653259715525918745189590510238),
    (0.586087235467691130294144691258360, 0.169004726639267902826583426598550),
    (0.405845151377397166906606412076961, 0.190350578064785409913256402421014),
    (0.207784955007898467600689403773245, 0.204432940075298892414161999234649),
    (0.0, 0.209482141084727828012999174891714),
]).T  # fmt: skip
_NODES, _KRONROD = np.append(-_NODES[:-1], _NODES[::-1]), np.append(_KRONROD[:-1], _KRONROD[::-1])
_GAUSS = np.zeros(15)
_GAUSS[1::2] = np.polynomial.legendre.leggauss(7)[1]


def _adaptive(function, breaks: Array) -> tuple[float, float]:
    """Gauss-Kronrod panels, bisected where they disagree most; the integral and an estimate of its error."""
    left, right = breaks[:-1], breaks[1:]
    done, lost, spent = [], [], 0
    while len(left):
        half, middle = (right - left) / 2, (right + left) / 2
        values = function((middle[:, None] + half[:, None] * _NODES).ravel()).reshape(-1, 15)
        fine, coarse = half * (values @ _KRONROD), half * (values @ _GAUSS)
        error = np.abs(fine - coarse)
        spent += len(left)
        total = sum(done) + fine.sum()
        bad = (error > 1e-13 * total) & (half > 1e-14 * np.abs(middle))
        bad &= np.argsort(np.argsort(-error)) < max(0, _PANELS - spent) // 2
        done.append(fine[~bad].sum())
        lost.append(error[~bad].sum())
        left, right = (np.concatenate(ends) for ends in ((left[bad], middle[bad]), (middle[bad], right[bad])))
    return float(sum(done)), float(sum(lost))


# Samples: drawn here, by region, from the ungated circuit.


def by_samples(model: VTModel, question: Asked, draws: int, rng: np.random.Generator) -> Known:
    """log ∫ f = log of the ungated integral and of the share of its draws that fall into their own cells."""
    rows = Asked(*(side[None] for side in question))
    whole = float(log_f(model, rows)[0])
    if whole == -np.inf:
        return Known(-np.inf, -np.inf)
    values, chunk, kept = log_values(model, rows), 200_000, 0
    for at in range(0, draws, chunk):
        kept += _kept(model, question, values, min(chunk, draws - at), rng)
    low = stats.beta.ppf(DELTA / 2, kept, draws - kept + 1) if kept else 0.0
    high = stats.beta.isf(DELTA / 2, kept + 1, draws - kept) if kept < draws else 1.0
    slack = ARITHMETIC * (1 + abs(whole))
    return Known(float(log(low)) + whole - slack, float(log(high)) + whole + slack)


def log(x: Array | float) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _kept(model: VTModel, question: Asked, values: list[Array], n: int, rng: np.random.Generator) -> int:
    """How many of n draws given the question lie in the cell of the unit they came through, at every gate."""
    circuit = model.experts.circuit
    regions, root = circuit.graph.regions, model.experts.root
    expert = _choose(rng, log(root_weights(model)) + values[root].reshape(-1), n)
    circuit_of, units = expert // model.experts.roots, {root: expert % model.experts.roots}
    x = np.full((n, len(question.x)), np.nan)
    for index in range(root, -1, -1):
        region, unit = regions[index], units.get(index)
        if unit is None:
            continue
        key = np.where(unit < 0, -1, circuit_of * region.units + unit).astype(np.int16)
        order = np.argsort(key, kind="stable")
        ends = np.searchsorted(key[order], np.arange(circuit.n_experts * region.units + 1))
        for group in np.flatnonzero(np.diff(ends)):
            here, (e, u) = order[ends[group] : ends[group + 1]], divmod(int(group), region.units)
            if region.kind == "leaf":
                x[here, region.scope[0]] = _leaf_draw(circuit, index, e, u, question, len(here), rng)
                continue
            weights = [log(w[e, u].detach().numpy()) for w in circuit.weights(index)]
            children = [values[c][e, :, 0] for c in region.children]
            for child, chosen in zip(
                region.children, _children(rng, region, weights, children, len(here)), strict=True
            ):
                units.setdefault(child, np.full(n, -1))[here] = chosen
    keep = np.ones(n, bool)
    for gate in model.placed:
        came = expert if gate.region == root else units.get(gate.region, np.full(n, -1))
        reached = np.flatnonzero(came >= 0)
        keep[reached] &= nearest(x[reached][:, list(gate.variables)], _centroids(gate)) == came[reached]
    return int(keep.sum())


def _choose(rng: np.random.Generator, log_weights: Array, n: int) -> Array:
    """n indices with probability proportional to exp(log_weights)."""
    share = np.cumsum(np.exp(log_weights - log_weights.max()))
    return np.minimum(np.searchsorted(share / share[-1], rng.random(n), side="right"), len(share) - 1)


def _children(rng, region: Region, weights: list[Array], children: list[Array], n: int) -> list[Array]:
    """The unit of each child, -1 for none."""
    if region.kind == "cp":
        return [_choose(rng, w + v, n) for w, v in zip(weights, children, strict=True)]
    if region.kind == "tucker":
        flat = _choose(rng, (weights[0] + children[0][:, None] + children[1]).ravel(), n)
        return [flat // len(children[1]), flat % len(children[1])]
    flat = _choose(rng, weights[0] + np.concatenate(children), n)
    ends = np.cumsum([0, *map(len, children)])
    return [np.where((flat >= a) & (flat < b), flat - a, -1) for a, b in itertools.pairwise(ends)]


def _leaf_draw(
    circuit: FoldedCircuit, index: int, e: int, u: int, question: Asked, n: int, rng
) -> Array | float:
    """Draws of a leaf unit on the question's side of its variable, or what is given there."""
    region = circuit.graph.regions[index]
    leaf, at = circuit.leaf(index)
    given, low, high = (side[region.scope[0]] for side in question)
    if not np.isnan(given):
        return given
    if region.leaf == "gaussian":
        mean = leaf.location[e, at, u].item()
        deviation = leaf.floor + np.exp(leaf.raw[e, at, u].double().item())
        a, b = (low - mean) / deviation, (high - mean) / deviation
        sign = -1.0 if a > 0 else 1.0
        a, b = special.log_ndtr(sorted((sign * a, sign * b)))
        q = rng.uniform(2.0**-53, 1, n)
        return np.clip(
            mean + sign * deviation * special.ndtri_exp(b + np.log(q + (1 - q) * np.exp(a - b))), low, high
        )
    table = leaf.logits[e, at, u].detach().double().numpy()
    if region.leaf == "categorical":
        codes = np.arange(leaf.parts)
        return _choose(rng, np.where((codes >= low) & (codes <= high), table, -np.inf), n)
    edges = leaf.edges[at].double().numpy()
    left, right = np.maximum(edges[:-1], low), np.minimum(edges[1:], high)
    part = _choose(rng, table + log(np.maximum(right - left, 0) / np.diff(edges)), n)
    return rng.uniform(left[part], right[part])
