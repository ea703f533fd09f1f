"""A configuration file as a list of runs: what to build, how to learn it, how to score it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from voronoi_circuits.datasets.loading import known_name, load
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture, Specification

Settings = dict[str, Any]
HERE = Path(__file__).parent
SHOWN = ("title", "look", "ours", "figure", "peer")
NOT_SPEC = {*SHOWN, "kind", "learner", "dimensions"}


class Run(NamedTuple):
    """One model on one set from one seed: ``settings`` decides its result, ``shown`` how it is drawn."""

    name: str
    structure: str
    model: str
    seed: int
    settings: Settings
    shown: Settings

    @property
    def key(self) -> str:
        """A short name, for people and files."""
        return f"{self.name}-{self.structure}-{self.model}-{self.seed}"

    @property
    def identity(self) -> str:
        """What a finished run is known by."""
        return json.dumps([*self._replace(shown={})], sort_keys=True)


def read(path: Path = HERE / "synthetic.toml", *, quick: bool = False) -> Settings:
    """The configuration, with [quick] written over it where asked."""
    with path.open("rb") as file:
        configuration = tomllib.load(file)
    replaced = configuration.pop("quick", {})
    return overlaid(configuration, replaced) if quick else configuration


def overlaid(settings: Settings, over: Mapping[str, Any]) -> Settings:
    """Settings with others written over them, table by table."""
    out = dict(settings)
    for name, value in over.items():
        merge = isinstance(value, dict) and isinstance(out.get(name), dict)
        out[name] = overlaid(out[name], value) if merge else value
    return out


def chosen(value: Any, dimension: int, structure: str) -> Any:
    """A value as it is, or the entry of its table for this dimension or structure."""
    while isinstance(value, dict):
        fits = [name for name in (f"{dimension}d", structure) if name in value]
        if not fits:
            raise ValueError(f"no entry for {dimension}d or {structure} among {', '.join(value)}: add one")
        value = value[fits[0]]
    return value


def grid(configuration: Settings, seeds: int) -> list[Run]:
    """Every run of the configuration, from each seed; one that sets its own seeds ([quick]) takes no more."""
    seeds = min(seeds, configuration.get("seeds", seeds))
    runs: list[Run] = []
    for name in map(known_name, configuration["sets"]):
        dimension = len(load(name, n=(1, 1, 1)).columns)
        for structure in configuration["structures"]:
            for place, (model, entry) in enumerate(configuration["models"].items()):
                if dimension in entry.get("dimensions", [dimension]):
                    settings = run_settings(configuration, entry, name, dimension, structure)
                    shown = {
                        field: chosen(entry[field], dimension, structure) for field in SHOWN if field in entry
                    }
                    shown |= {"place": place, "structure": configuration["structure_titles"][structure]}
                    runs += [Run(name, structure, model, seed, settings, shown) for seed in range(seeds)]
    return runs


def run_settings(
    configuration: Settings, entry: Settings, name: str, dimension: int, structure: str
) -> Settings:
    """All settings of a run but its seed, spelled out."""
    spec = {key: chosen(value, dimension, structure) for key, value in entry.items() if key not in NOT_SPEC}
    learner = {**configuration["learner"], **entry.get("learner", {})}
    return {
        "data": {"seed": configuration["data_seed"], "rows": configuration["rows"]},
        "spec": {"kind": entry["kind"], "structure": structure, **spec},
        "learner": {key: chosen(value, dimension, structure) for key, value in learner.items()},
        "certificates": configuration["certificates"] if entry["kind"] == "vt" else {},
        "curve": name == known_name(configuration["curves_of"]),
        "keep": name == known_name(configuration["overlays_of"]),
    }


def specification(spec: Mapping[str, Any]) -> Specification:
    """The specification that a run's settings write down."""
    left = dict(spec)
    kind = left.pop("kind")
    expert = Circuit(**{key: left.pop(key) for key in ("structure", "product", "units") if key in left})
    if kind == "circuit":
        return expert.set_params(**left)
    kinds = {"mixture": Mixture, "vt": VT, "hfv": HFV}
    if kind not in kinds:
        raise ValueError(f"kind = {kind!r} is no model: give one of circuit, {', '.join(kinds)}")
    return kinds[kind](expert).set_params(**left)
