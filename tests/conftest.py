"""What every test stands on: one thread, the same examples on every run."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def one_thread():
    """Each worker has a core; a test that sets another number of threads keeps it to itself."""
    torch.set_num_threads(1)
