"""Commands of operation in the process of the tests."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    """Give back the process's mask of file modes, which the commands change for their own process."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
