"""Fixtures shared by the tests of the admin REST beside Apache's."""

import pytest

from tests.interop.schemas.programs import UnavailableError
from tests.oracle.admin import go_library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that makes calls of the Go admin library; skipped, saying why, where there is no Go."""
    try:
        return go_library.build(tmp_path_factory.mktemp("library"))
    except UnavailableError as error:
        pytest.skip(str(error))
