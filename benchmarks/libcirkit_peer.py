"""The peer: libcirkit 0.3.1 (GPL-3, used through its public names only) on our region graph and parameters.

Nothing is read back from a folded circuit. Every layer is handed its values as an initializer, in libcirkit's
own default parametrisation (weights: softmax of logits; deviations: a sigmoid scaled to 1e-5..1), so that
training does what it does for any user of libcirkit. It clamps log-values at -708: compare on rows that stay
above. Letters: B rows, D variables, U units of a region, U_a and U_b units of its children.

A region graph is a list of plain records with the fields scope, units, kind and children, as
`dataclasses.asdict` makes them of each `Region`. Parameters are one dictionary of float64 arrays, in which
regions are named by their position in that list:

    ("mean", r), ("stddev", r)    leaf r                     (U,)
    ("weight", r)                 tucker r, children a, b    (U, U_a, U_b), every [o] sums to 1
    ("weight", r)                 sum r, children in order   (U, sum of U_child), every row sums to 1
    ("weight", r, child)          an edge of cp region r     (U, U_child), every row sums to 1
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from cirkit.pipeline import PipelineContext
from cirkit.symbolic.circuit import Circuit
from cirkit.symbolic.initializers import ConstantTensorInitializer
from cirkit.symbolic.layers import GaussianLayer, HadamardLayer, KroneckerLayer, Layer, SumLayer
from cirkit.symbolic.parameters import (
    Parameter,
    ScaledSigmoidParameter,
    SoftmaxParameter,
    TensorParameter,
    UnaryParameterOp,
)
from cirkit.utils.scope import Scope
from numpy.typing import NDArray
from torch import Tensor, nn

Regions = Sequence[Mapping[str, Any]]
Key = tuple[str, int] | tuple[str, int, int]
Parameters = Mapping[Key, NDArray[np.float64]]

SMALLEST_DEVIATION, LARGEST_DEVIATION = 1e-5, 1.0  # libcirkit's defaults for a Gaussian layer


class LogLikelihood(nn.Module):
    """A compiled libcirkit circuit of one root, as a function from rows (B, D) to log-likelihoods (B,)."""

    def __init__(self, circuit: nn.Module) -> None:
        super().__init__()
        self.circuit = circuit

    def forward(self, rows: Tensor) -> Tensor:
        return self.circuit(rows).flatten()


def libcirkit_circuit(
    regions: Regions, parameters: Parameters, dtype: torch.dtype = torch.float32
) -> LogLikelihood:
    """The circuit of these regions and parameters, as libcirkit compiles it."""
    return compiled(symbolic_circuit(regions, parameters), dtype)


def compiled(circuit: Circuit, dtype: torch.dtype = torch.float32) -> LogLikelihood:
    """A symbolic circuit of one root, compiled: log-sum-exp semiring, folded, optimised."""
    context = PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True)
    with _default_dtype(dtype):
        return LogLikelihood(context.compile(circuit))


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, rows: Tensor) -> Tensor:
    """One step on the mean negative log-likelihood, for any module from rows (B, D) to (B,)."""
    optimizer.zero_grad()
    loss = -model(rows).mean()
    loss.backward()
    optimizer.step()
    return loss


def symbolic_circuit(regions: Regions, parameters: Parameters) -> Circuit:
    """The layers that libcirkit's own `RegionGraph.build_circuit` makes, each with its values given.

    A cp region is the Hadamard product of one sum layer for each edge; a tucker region is a sum layer over
    the Kronecker product of its two children, the second child varying fastest.
    """
    inputs: dict[Layer, list[Layer]] = {}  # each layer after those it reads
    units: list[Layer] = []  # the layer that holds the units of each region

    def add(layer: Layer, *below: Layer) -> Layer:
        inputs[layer] = list(below)
        return layer

    for r, region in enumerate(regions):
        n, below = region["units"], [units[child] for child in region["children"]]
        match region["kind"]:
            case "leaf":
                mean, stddev = _free(parameters["mean", r]), _deviation(parameters["stddev", r], r)
                units.append(add(GaussianLayer(Scope(region["scope"]), n, mean=mean, stddev=stddev)))
            case "sum":
                m, weight = _common_units(below, r), _weight(parameters["weight", r])
                units.append(add(SumLayer(m, n, arity=len(below), weight=weight), *below))
            case "cp":
                weights = [_weight(parameters["weight", r, child]) for child in region["children"]]
                pairs = zip(below, weights, strict=True)
                edges = [add(SumLayer(child.num_output_units, n, weight=w), child) for child, w in pairs]
                units.append(add(HadamardLayer(n, arity=len(edges)), *edges))
            case "tucker":
                kronecker = add(KroneckerLayer(_common_units(below, r), arity=len(below)), *below)
                weight = _weight(parameters["weight", r])
                units.append(add(SumLayer(kronecker.num_output_units, n, weight=weight), kronecker))
            case kind:
                raise _unknown(r, kind)
    return Circuit(list(inputs), inputs, [units[-1]])


def random_parameters(regions: Regions, generator: np.random.Generator) -> dict[Key, NDArray[np.float64]]:
    """Parameters for these regions: normal means, deviations in 0.2..0.9, weights uniform on the simplex."""
    parameters: dict[Key, NDArray[np.float64]] = {}
    for r, region in enumerate(regions):
        n, below = region["units"], [regions[child]["units"] for child in region["children"]]
        match region["kind"]:
            case "leaf":
                parameters["mean", r] = generator.normal(size=n)
                parameters["stddev", r] = generator.uniform(0.2, 0.9, size=n)
            case "sum":
                parameters["weight", r] = generator.dirichlet(np.ones(sum(below)), size=n)
            case "cp":
                for child, m in zip(region["children"], below, strict=True):
                    parameters["weight", r, child] = generator.dirichlet(np.ones(m), size=n)
            case "tucker":
                flat = generator.dirichlet(np.ones(np.prod(below)), size=n)
                parameters["weight", r] = flat.reshape(n, *below)
            case kind:
                raise _unknown(r, kind)
    return parameters


def _free(values: NDArray[np.float64], *operators: UnaryParameterOp) -> Parameter:
    """A trainable tensor that starts at these values, with operators applied to it."""
    tensor = TensorParameter(*values.shape, initializer=ConstantTensorInitializer(values))
    return Parameter.from_sequence(tensor, *operators) if operators else Parameter.from_input(tensor)


def _weight(weight: NDArray[np.float64]) -> Parameter:
    """Rows of weights on the simplex as the softmax of their logarithms."""
    logits = np.log(weight.reshape(len(weight), -1))
    return _free(logits, SoftmaxParameter(logits.shape))


def _deviation(stddev: NDArray[np.float64], region: int) -> Parameter:
    """Deviations as libcirkit's scaled sigmoid of a free tensor."""
    share = (stddev - SMALLEST_DEVIATION) / (LARGEST_DEVIATION - SMALLEST_DEVIATION)
    if not ((share > 0) & (share < 1)).all():
        raise ValueError(
            f"leaf region {region} has a deviation outside {SMALLEST_DEVIATION}..{LARGEST_DEVIATION}, which "
            "libcirkit's default Gaussian cannot express; compare the libraries on deviations within"
        )
    scaled = ScaledSigmoidParameter(stddev.shape, vmin=SMALLEST_DEVIATION, vmax=LARGEST_DEVIATION)
    return _free(np.log(share) - np.log1p(-share), scaled)


def _common_units(layers: list[Layer], region: int) -> int:
    units = {layer.num_output_units for layer in layers}
    if len(units) != 1:
        raise ValueError(
            f"region {region} has children of {sorted(units)} units; libcirkit needs equal numbers"
        )
    return units.pop()


def _unknown(region: int, kind: str) -> ValueError:
    return ValueError(f"region {region} is of kind {kind!r}; libcirkit has leaf, sum, cp and tucker regions")


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """libcirkit allocates parameters in torch's default dtype; it is put back afterwards."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
