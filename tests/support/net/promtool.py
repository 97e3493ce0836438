"""Programs of Debian's package ``prometheus``, where it is installed or ``make dev`` has unpacked it."""

import shutil
import subprocess

import pytest

from tests.support.import_graph import ROOT

APACHE = (
    *("pulsar_", "bookie_", "bookkeeper_", "replication_"),
    *("znode_", "ephemerals_", "watch_", "packets_"),
)
NAMING = (
    'should not have "_count" suffix',
    'should not have "_sum" suffix',
    "should not contain abbreviated units",
    "should be written in 'snake_case' not 'camelCase'",
    'counter metrics should have "_total" suffix',
    'non-summary metrics should not have "quantile" label',
)


def tool(name: str) -> str:
    """Return the path of ``prometheus`` or ``promtool``; skip the test when it is not there."""
    unpacked = ROOT / ".tools" / "prometheus" / "usr" / "bin" / name
    path = shutil.which(name) or (str(unpacked) if unpacked.exists() else None)
    if path is None:
        pytest.skip(f"{name} is not installed: it is in Debian's package prometheus")
    return path


def complaints(page: str) -> list[str]:
    """Return the tool's complaints about a readable page, except those about names of Pulsar and BookKeeper."""
    command = [tool("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=page, text=True, capture_output=True)
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode in (0, 3), lines
    named = [line for line in lines if line.startswith(APACHE) and line.endswith(NAMING)]
    return [line for line in lines if line not in named]
