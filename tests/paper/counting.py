"""What a computation costs: every number that torch writes, however many cores do it."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Written(TorchDispatchMode):
    """Counts the elements of every tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple | list) else [out]:
            if isinstance(part, torch.Tensor):
                self.count += part.numel()
        return out


def written(work: Callable[[], Any]) -> int:
    """How many numbers `work` writes."""
    with torch.no_grad(), Written() as counter:
        work()
    return counter.count
