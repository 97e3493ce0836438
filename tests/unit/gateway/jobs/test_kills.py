"""``kill -9`` of a worker at every step: what it left is found, the run is done by the next one, the leavings go."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.unit.gateway.jobs.bench import FILES, STEPS, environment

ROOT = Path(__file__).parents[4]
UNFINISHED = ("half", "seal", "finish")
"""Steps that leave the attempt's directory without a row that points to it."""


def test_a_worker_killed_at_any_step_leaves_the_run_to_the_next(
    tmp_path: Path, migrated: Path, transactional_db: None
) -> None:
    shutil.copy(migrated, tmp_path / "console.sqlite3")
    script = Path(__file__).with_name("killed_worker.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        input="\n".join(STEPS) + "\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment(), "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = dict(zip(STEPS, map(json.loads, done.stdout.splitlines()), strict=True))
    for step, answer in answers.items():
        attempt = "1" if step in ("claim", "done") else "2"
        assert answer["killed"] == (["1"] if step in (*UNFINISHED, "done") else []), step
        assert (answer["state"], answer["left"]) == ("succeeded", [attempt]), step
        assert answer["by"].startswith(f"attempt {attempt}"), step
        assert answer["files"] == dict.fromkeys(FILES, answer["by"]), step
