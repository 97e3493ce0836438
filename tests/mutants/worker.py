"""Forks of one process that run pytest. The process has loaded the libraries that tests need, which saves half of a
run's time.

A line on stdin is a request, ``{"args": […], "output": path, "limit_s": 30}``. The answer is a line on stdout: pytest's
exit status, or ``null`` after ``limit_s``. The working directory is the copy of the tree.
"""

import importlib
import json
import os
import signal
import sys
import time
from contextlib import suppress

LOADED = (
    "pytest", "pytest_asyncio.plugin", "pytest_django.plugin", "pytest_timeout", "_hypothesis_pytestplugin",
    "hypothesis.stateful", "django.test", "kazoo.client",
    "google.protobuf.message", "pulsar.asyncio", "rocksdict", "celery", "daphne", "uvicorn", "pyarrow",
)  # fmt: skip
POLL_S = 0.02


def run(args: list[str], output: str, limit_s: float) -> int | None:
    child = os.fork()
    if not child:
        os.setsid()
        out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = int(importlib.import_module("pytest").main(args))
        sys.stdout.flush()
        os._exit(status)
    end = time.monotonic() + limit_s
    try:
        while time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(POLL_S)
    finally:
        with suppress(ProcessLookupError):  # and all processes that the tests have started
            os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main() -> None:
    sys.path.insert(0, os.getcwd())
    for name in LOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
