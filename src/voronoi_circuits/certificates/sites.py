"""The gates of a model as certificates meet them: each gate with none above it, and the gates below.

# K cells, E experts of the folded circuit, M units at a site: K at the root, E * K elsewhere
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from voronoi_circuits.circuits.moments import root_moments
from voronoi_circuits.circuits.questions import Gates, Question, ValueGate
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.vt import VTModel


@dataclass(frozen=True)
class Site:
    """A gate, and the gates directly below it in turn."""

    gate: VoronoiGate
    below: tuple[Site, ...]

    def all_below(self) -> list[VoronoiGate]:
        """Every gate beneath this one."""
        return [gate for site in self.below for gate in (site.gate, *site.all_below())]

    @property
    def variables(self) -> list[int]:
        """Every variable that a gate here or below reads."""
        found = set(self.gate.variables)
        for gate in self.all_below():
            found |= set(gate.variables)
        return sorted(found)


def sites(model: VTModel) -> list[Site]:
    """The model's gates as a forest; a region that several others share has its gate below each of them."""
    regions = model.experts.circuit.graph.regions
    gates = {gate.region: gate for gate in model.placed}

    def first(below: Iterable[int]) -> set[int]:
        """The gated regions that are reached through none but ungated ones."""
        found: set[int] = set()
        seen: set[int] = set()
        ahead = list(below)
        while ahead:
            region = ahead.pop()
            if region in gates:
                found.add(region)
            elif region not in seen:
                seen.add(region)
                ahead.extend(regions[region].children)
        return found

    def site(region: int) -> Site:
        under = sorted(first(regions[region].children), reverse=True)
        return Site(gates[region], tuple(map(site, under)))

    return [site(region) for region in sorted(first([model.experts.root]), reverse=True)]


def replaced(value: Tensor) -> ValueGate:
    """A gate that puts (M, B) log integrals in the place of a region's values."""

    def gate(values: Tensor) -> Tensor:
        return value.view_as(values)

    return gate


def scaled(factor: Tensor) -> ValueGate:
    """A gate that adds (M, B) logs to a region's values."""

    def gate(values: Tensor) -> Tensor:
        return values + factor.view_as(values)

    return gate


def units_of(model: VTModel, site: Site) -> int:
    """M, the units at a site over all experts."""
    circuit = model.experts.circuit
    return circuit.n_experts * circuit.graph.regions[site.gate.region].units


def spread(model: VTModel, gate: VoronoiGate, labels: Tensor) -> Tensor:
    """Labels of cells (B, K) over the units (B, M): the same in every expert below the root."""
    if gate.region == model.experts.root:
        return labels
    return labels.repeat(1, model.experts.circuit.n_experts)


def site_values(model: VTModel, site: Site, question: Question, gates: Gates, outward: int) -> Tensor:
    """log of what each unit of a site integrates to, (M, B)."""
    run = model.experts.circuit.run(question, gates, outward=outward, upto=site.gate.region)
    return run[site.gate.region].flatten(0, 1)


def site_moments(model: VTModel, site: Site) -> tuple[Tensor, Tensor]:
    """Mean and deviation of every variable under each unit's expert, (M, D)."""
    mean, variance = root_moments(model.experts.circuit)
    if site.gate.region == model.experts.root:
        mean, variance = mean.flatten(0, 1), variance.flatten(0, 1)
    else:
        units = model.experts.circuit.graph.regions[site.gate.region].units
        mean, variance = (m.mean(1).repeat_interleave(units, 0) for m in (mean, variance))
    return mean, variance.clamp(min=torch.finfo(torch.float64).tiny).sqrt()


def log_mean(ratio: Tensor) -> Tensor:
    """log of a ratio in [0, 1], -inf at 0."""
    return torch.where(ratio > 0, ratio.clamp(min=torch.finfo(torch.float64).tiny).log(), -torch.inf)
