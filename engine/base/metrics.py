"""Prometheus' text format, for the pages that the engine's servers write themselves."""

import os
import resource
import time
from collections.abc import Iterable
from pathlib import Path

from engine.base.clock import Clock

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the format."""
PROC = "/proc/self"


def described(name: str, kind: str, text: str, samples: Iterable[tuple[str, object]]) -> str:
    """Return the lines of one family of metrics. ``samples``: labels, as ``labels_of`` writes them, with their value;
    None is left out."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{{{labels}}} {value}" for labels, value in samples if value is not None]
    return "\n".join([*lines, ""])


def labels_of(**pairs: str) -> str:
    """Return labels with their values escaped."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())


def of_process(clock: Clock) -> str:
    """Return the families of this process under the names of Prometheus' client libraries.

    Values that the system hides (``/proc`` is closed or missing) have no sample.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    open_fds, resident, started_s = _of_proc(clock.wall_ms() / 1000)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    cpu_s = usage.ru_utime + usage.ru_stime
    return "".join(
        described(f"process_{name}", kind, text, [("", value)])
        for name, kind, text, value in (
            ("cpu_seconds_total", "counter", "Seconds of processor time.", round(cpu_s, 3)),
            ("resident_memory_bytes", "gauge", "Bytes of resident memory.", resident),
            ("open_fds", "gauge", "Open file descriptors.", open_fds),
            ("max_fds", "gauge", "Limit of open file descriptors.", limit),
            ("start_time_seconds", "gauge", "Start, in seconds since the Unix epoch.", started_s),
        )
    )


def _of_proc(now_s: float) -> tuple[int | None, int | None, float | None]:
    """Return open descriptors, resident bytes and the time of the start; None for unknown."""
    folder = Path(PROC)
    try:
        # The name of the program, in brackets, may contain blanks.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        started_s = round(now_s - up_s + int(fields[19]) / os.sysconf("SC_CLK_TCK"), 2)
        resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        return len(os.listdir(folder / "fd")), resident, started_s
    except (OSError, ValueError, IndexError):
        return None, None, None


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value
