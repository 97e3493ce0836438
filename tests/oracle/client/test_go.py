"""Topics as Apache's own Go client sees them: the same from both brokers, and nothing hangs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.schemas.programs import UnavailableError, build_go
from tests.oracle.client.talk import on_both
from tests.oracle.conftest import Side

SOURCE = Path(__file__).parents[1] / "go" / "main.go"
RUN_S_MAX = 180.0


def test_the_go_client_sees_the_same(sides: tuple[Side, Side], tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path)
    try:
        program = build_go(tmp_path, tmp_path)
    except UnavailableError as error:
        pytest.skip(str(error))

    def output(side: Side) -> list[str]:
        words = [program, side.url, side.http]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S_MAX)
        assert done.returncode == 0, done.stderr[-3000:]
        return sorted(done.stdout.splitlines())

    theirs, ours = on_both(sides, output)
    assert ours == theirs
    assert not [line for line in ours if "HANGS" in line or "FAILED" in line]
