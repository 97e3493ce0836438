"""Every program makes files that only its own user can read; a start closes what earlier versions left open."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.standalone.cli import _make_private

ROOT = Path(__file__).resolve().parents[2]
STARTS = {
    "broker": "from engine.__main__ import main; main(['broker'])",
    "bookie": "from bookie.__main__ import main; main([])",
    "gateway": "import sys; from gateway.serve import main; main(sys.argv[1:])",
    "worker": "import gateway.celery, celery.signals as s; s.celeryd_init.send('w'); exit()",
    "manage": "from manage import main; main()",
}


@pytest.mark.parametrize("program", STARTS)
def test_files_that_a_program_creates_are_private_to_its_user(tmp_path: Path, program: str) -> None:
    script = f"""
import atexit, os, pathlib, sys
sys.path.insert(0, {str(ROOT)!r})
os.umask(0o022)
atexit.register(lambda: pathlib.Path('made').touch())
{STARTS[program]}
"""
    nonsense = {"MAGNETAR_LOG_LEVEL": "nonsense"} if program != "worker" else {}
    done = subprocess.run(
        [sys.executable, "-c", script, *(["standalone", "status"] if program == "manage" else ())],
        cwd=tmp_path,
        env={**nonsense, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600, done.stderr.decode()


def test_a_start_makes_files_of_earlier_versions_private_and_no_others(tmp_path: Path) -> None:
    modes = {"console.sqlite3": 0o644, "console.sqlite3-wal": 0o640, "mine.txt": 0o644}
    for name, mode in modes.items():
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    for name in ("bookie-1", "logs", "other"):
        (tmp_path / name).mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    _make_private(tmp_path)
    now = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert now == {
        "console.sqlite3": 0o600,
        "console.sqlite3-wal": 0o600,
        "mine.txt": 0o644,
        "bookie-1": 0o700,
        "logs": 0o700,
        "other": 0o755,
    }
    assert tmp_path.stat().st_mode & 0o777 == 0o755
