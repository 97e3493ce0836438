"""``promtool check metrics`` of Debian's package ``prometheus``, where it is installed."""

import shutil
import subprocess

import pytest

NAMING = (
    'should not have "_count" suffix',
    'should not have "_sum" suffix',
    "should not contain abbreviated units",
    "should be written in 'snake_case' not 'camelCase'",
)


def complaints(page: str) -> list[str]:
    """Return the tool's complaints about a readable page, except those about names of Pulsar's families."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: it is in Debian's package prometheus")
    done = subprocess.run([tool, "check", "metrics"], input=page, text=True, capture_output=True)
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode in (0, 3), lines
    named = [line for line in lines if line.startswith("pulsar_") and line.endswith(NAMING)]
    return [line for line in lines if line not in named]
