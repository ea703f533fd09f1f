"""Parameters as plain JSON and back: what JSON lacks is an object with one key that says what it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator

from voronoi_circuits.circuits.region_graph import RegionGraph

Types = Mapping[str, type]


def plain(value: object, name: str, types: Types) -> Any:
    """The value as JSON; ``name`` is what errors call it.

    ``types`` are the classes that may occur: parameter classes, dataclasses, named tuples and enums.

    >>> plain({"cells": (3, math.inf)}, "model", {})
    {'$dict': [['cells', {'$tuple': [3, {'$float': 'inf'}]}]]}
    """
    match value:
        case Enum() if known(value, types):
            return {"$enum": [type(value).__name__, value.name]}
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case np.generic():
            return plain(value.item(), name, types)
        case tuple() if known(cast("object", value), types):
            return _object(type(value).__name__, cast("Any", value)._asdict(), name, types)
        case range():
            return {"$range": [value.start, value.stop, value.step]}
        case list() | tuple() | set() | frozenset():
            items = [plain(item, name, types) for item in cast("list[object]", value)]
            return items if isinstance(value, list) else {f"${type(value).__name__}": items}
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            return {"$dict": [[plain(key, name, types), plain(entry, name, types)] for key, entry in pairs]}
        case RegionGraph():
            return {"$graph": value.to_json()}
        case np.random.RandomState():
            kind, keys, *rest = cast("tuple[Any, ...]", value.get_state(legacy=True))
            return {"$random_state": [kind, keys.tolist(), *rest]}
        case _ if isinstance(value, BaseEstimator) and known(value, types):
            return _object(type(value).__name__, value.get_params(deep=False), name, types)
        case _ if is_dataclass(value) and known(value, types):
            parts = {field.name: getattr(value, field.name) for field in fields(value)}
            return _object(type(value).__name__, parts, name, types)
        case _:
            raise ValueError(f"{name} holds a {type(value).__name__}, which cannot be saved: {value!r}")


def restored(value: Any, types: Types) -> Any:
    """The value that ``plain`` wrote.

    >>> restored(plain({"cells": (3, math.inf)}, "model", {}), {})
    {'cells': (3, inf)}
    """
    if isinstance(value, list):
        return [restored(item, types) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = cast("dict[str, Any]", value).items()
    if kind in _PLURALS:
        return _PLURALS[kind]([restored(item, types) for item in content])
    match kind:
        case "$float":
            return float(content)
        case "$dict":
            return {restored(key, types): restored(entry, types) for key, entry in content}
        case "$graph":
            return RegionGraph.from_json(content)
        case "$random_state":
            random = np.random.RandomState()
            random.set_state(tuple(content))
            return random
        case "$enum":
            return getattr(types[content[0]], content[1])
        case _:
            return types[kind](**{key: restored(entry, types) for key, entry in content.items()})


_PLURALS: dict[str, Callable[[list[Any]], object]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$range": lambda items: range(*items),
}


def known(value: object, types: Types) -> bool:
    """Whether the value's class itself, and not only one of the same name, is among the types."""
    return types.get(type(value).__name__) is type(value)


def _object(kind: str, parts: Mapping[str, object], name: str, types: Types) -> dict[str, Any]:
    return {kind: {key: plain(entry, f"{name}.{key}", types) for key, entry in parts.items()}}
