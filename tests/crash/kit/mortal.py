"""``python -m tests.crash.kit.mortal <module> [argument …]``: a process that ends with the test that started it.

On SIGUSR1 it logs what each of its tasks waits for, from the outside in.
"""

import asyncio
import ctypes
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

END_OF_TASKS = "--- end of tasks"


def _chain(awaited: Any) -> str:
    """Return the place of a coroutine and of everything that it awaits, from the outside in."""
    steps = []
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            steps.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return " > ".join(steps)


def _log_tasks(*_: object) -> None:
    lines = [f"  {task.get_name()}: {_chain(task.get_coro())}" for task in asyncio.all_tasks()]
    print("--- tasks", *sorted(lines), END_OF_TASKS, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    # Not in preexec_fn: with threads about, Python code between fork and exec may wait for a lock for ever.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.signal(signal.SIGUSR1, _log_tasks)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
