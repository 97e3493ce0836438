"""A worker that is killed with SIGKILL at a step, in a process of its own: ``killed_worker.py <data directory>``.

Django is set up once. For each line of standard input, a step, a worker is forked that takes a new run and kills itself
there. One line of JSON answers: the attempts on disk after the kill, how the run ended, the attempts on disk then.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    os.environ.update(DJANGO_SETTINGS_MODULE="gateway.settings", MAGNETAR_DATA_DIR=sys.argv[1])
    import django

    django.setup()
    import pytest
    from django.db import connections

    from tests.unit.gateway.jobs.bench import Bench, directories

    bench = Bench(pytest.MonkeyPatch())
    for line in sys.stdin:
        run = bench.create()
        message = bench.messages.pop()
        connections.close_all()
        worker = os.fork()
        if worker == 0:
            _work(bench, message, line.strip())
        os.waitpid(worker, 0)
        killed = directories()
        now = bench.settle(run)
        files = {path.name: path.read_text() for path in sorted(_files(run.id, now.attempt))}
        answer: dict[str, Any] = {"killed": [name.partition(".")[2] for name in killed]}
        answer |= {"state": now.state, "attempt": now.attempt, "by": (now.result or {}).get("by")}
        answer |= {"left": [name.partition(".")[2] for name in directories()], "files": files}
        print(json.dumps(answer), flush=True)
        now.delete()
        for path in _files(run.id, now.attempt):
            path.unlink()
        for path in Path(sys.argv[1], "runs").glob("*"):
            path.rmdir()


def _files(run_id: str, attempt: int) -> list[Path]:
    return list(Path(sys.argv[1], "runs", f"{run_id}.{attempt}").glob("*"))


def _work(bench: Any, message: tuple[str, int], step: str) -> None:
    bench.at(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
    bench.messages.append(message)
    bench.work()
    os._exit(0)


if __name__ == "__main__":
    main()
