"""Fixtures of the tests of the wheel."""

import subprocess
from pathlib import Path

import pytest

from tests.integration.wheel.installed import ROOT, Installed, build


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / "docs" / "_build" / "html" / "searchindex.js").exists():
        subprocess.run(["make", "docs"], cwd=ROOT, check=True)
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    installed = Installed(tmp_path_factory.mktemp("installed"), wheel)
    # Another distribution of the environment has a package of the same name as ours.
    (installed.packages / "engine").mkdir()
    (installed.packages / "engine" / "__init__.py").write_text("raise ImportError\n")
    return installed
