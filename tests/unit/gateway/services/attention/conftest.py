"""The console of a test."""

import pytest

from tests.support.admin.board_console import Console


@pytest.fixture
def console() -> Console:
    return Console()
