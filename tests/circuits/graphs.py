"""Random region graphs, grown from their definition and not by the library's builders."""

import random

from hypothesis import strategies as st

from voronoi_circuits.circuits.region_graph import Region


def grow(rng: random.Random, n_variables: int, widest: int = 4) -> list[Region]:
    """Regions of a smooth and decomposable graph: leaves, sums, CP and Tucker products, some shared."""
    regions: list[Region] = []
    made: dict[tuple[int, ...], list[int]] = {}

    def region(scope: tuple[int, ...]) -> int:
        if made.get(scope) and rng.random() < 0.3:
            return rng.choice(made[scope])
        units = rng.randint(1, 4)
        if rng.random() < 0.25:
            children = tuple({region(scope) for _ in range(rng.randint(1, 2))})
            new = Region(scope, units, "sum", children)
        elif len(scope) == 1:
            new = Region(scope, units, "leaf", leaf=rng.choice(["gaussian", "categorical", "histogram"]))
        else:
            parts = rng.randint(2, min(widest, len(scope)))
            cuts = sorted(rng.sample(range(1, len(scope)), parts - 1))
            order = rng.sample(scope, len(scope))
            children = tuple(
                region(tuple(sorted(order[a:b])))
                for a, b in zip([0, *cuts], [*cuts, len(scope)], strict=True)
            )
            new = Region(scope, units, "tucker" if parts == 2 and rng.random() < 0.5 else "cp", children)
        regions.append(new)
        made.setdefault(scope, []).append(len(regions) - 1)
        return len(regions) - 1

    return _used(regions, region(tuple(range(n_variables))))


def _used(regions: list[Region], root: int) -> list[Region]:
    """The regions below the root alone: a shared region may have left others unused."""
    below, stack = set[int](), [root]
    while stack:
        below.add(position := stack.pop())
        stack.extend(regions[position].children)
    new = {position: i for i, position in enumerate(sorted(below))}
    return [
        Region(r.scope, r.units, r.kind, tuple(new[c] for c in r.children), r.leaf)
        for r in (regions[position] for position in sorted(below))
    ]


def random_regions(max_variables: int = 7, widest: int = 4) -> st.SearchStrategy[list[Region]]:
    """Graphs of 1 to `max_variables` variables."""
    return st.builds(
        lambda seed, n_variables: grow(random.Random(seed), n_variables, widest),
        st.integers(0, 2**32),
        st.integers(1, max_variables),
    )
