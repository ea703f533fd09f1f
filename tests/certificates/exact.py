"""The exact truth, to 40 digits, of models whose one gate cuts space into slabs along one variable."""

# K cells, E experts, U units

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from mpmath import mp, mpf

from tests.certificates.truth import Asked
from voronoi_circuits.models.vt import VTModel

mp.dps = 40


def slabs(model: VTModel) -> list[tuple[mpf, mpf]]:
    """The interval (in the gate's first variable) of each cell; no centroids may be equal there."""
    centroids = [Fraction(c[0]) for c in model.placed[0].tessellation.centroids.detach().double().tolist()]
    order = sorted(range(len(centroids)), key=centroids.__getitem__)
    sides = {k: [-mp.inf, mp.inf] for k in order}
    for left, right in pairwise(order):
        facet = (centroids[left] + centroids[right]) / 2
        sides[left][1] = sides[right][0] = mpf(facet.numerator) / facet.denominator
    return [tuple(sides[k]) for k in range(len(centroids))]


def log_integral(model: VTModel, question: Asked) -> mpf:
    """log ∫ f, or log f where every variable is given."""
    gate = model.placed[0]
    axis, experts, total = gate.variables[0], model.experts, mpf(0)
    weights = [mpf(1)] if experts.logits is None else _softmax(experts.logits.detach().double().tolist())
    for k, (left, right) in enumerate(slabs(model)):
        low, high = ([mpf(v) for v in side.tolist()] for side in (question.low, question.high))
        x = question.x[axis]
        if not np.isnan(x) and not left < mpf(x) < right:
            continue
        low[axis], high[axis] = max(low[axis], left), min(high[axis], right)
        if low[axis] > high[axis]:
            continue
        for e in range(experts.circuit.n_experts):
            roots = _values(model, e, question.x, low, high, k)
            for r, value in enumerate(roots):
                i = e * experts.roots + r
                if gate.region != experts.root or i == k:
                    total += weights[i] * value
    return mp.log(total) if total else -mp.inf


def _values(model: VTModel, e: int, x: np.ndarray, low: list[mpf], high: list[mpf], cell: int) -> list[mpf]:
    """The roots of circuit e, with the units of other cells 0 at a gate below the root."""
    circuit, gate = model.experts.circuit, model.placed[0]
    values: list[list[mpf]] = []
    for index, region in enumerate(circuit.graph.regions):
        children = [values[c] for c in region.children]
        if region.kind == "leaf":
            v = region.scope[0]
            out = [_leaf(circuit, index, e, u, x[v], low[v], high[v]) for u in range(region.units)]
        else:
            layer, at = circuit._place[index]
            module = circuit.layers[layer]
            out = []
            for o in range(region.units):
                if region.kind == "cp":
                    folded = len(circuit.folds[layer].regions)
                    edges = [module.edge(s, at, folded)[e, o] for s in range(len(children))]
                    out.append(mp.fprod(_mix(w, c) for w, c in zip(edges, children, strict=True)))
                    continue
                terms = [c for child in children for c in child]
                if region.kind == "tucker":
                    terms = [a * b for a in children[0] for b in children[1]]
                out.append(_mix(module.weight[e, at, o].flatten(), terms))
        if index == gate.region and index != model.experts.root:
            out = [v if u == cell else mpf(0) for u, v in enumerate(out)]
        values.append(out)
    return values[-1]


def _mix(logits, terms: list[mpf]) -> mpf:
    weights = _softmax(logits.detach().double().tolist())
    return mp.fsum(w * t for w, t in zip(weights, terms, strict=True))


def _softmax(logits: list[float]) -> list[mpf]:
    weights = [mp.exp(mpf(v)) for v in logits]
    return [w / mp.fsum(weights) for w in weights]


def _leaf(circuit, index: int, e: int, u: int, x: float, low: mpf, high: mpf) -> mpf:
    leaf, at = circuit.leaf(index)
    mean = mpf(leaf.location[e, at, u].item())
    deviation = mpf(leaf.floor) + mp.exp(mpf(leaf.raw[e, at, u].item()))
    if not np.isnan(x):
        return mp.npdf((mpf(float(x)) - mean) / deviation) / deviation
    a, b = (low - mean) / deviation, (high - mean) / deviation
    a, b = (-b, -a) if a > 0 else (a, b)
    return (mp.erfc(-b / mp.sqrt(2)) - mp.erfc(-a / mp.sqrt(2))) / 2
