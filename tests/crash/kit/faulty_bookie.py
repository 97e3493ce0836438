"""``python -m tests.crash.kit.faulty_bookie <plan> <arguments of python -m bookie>``: the shipped bookie process on a
disk that loses what was not synced. SIGUSR1 cuts the power at once; the plan (JSON) may do so at a named operation,
which counts from the start on or from SIGUSR2 on."""

import json
import signal
import sys
import threading
from pathlib import Path

import bookie.__main__ as process
from tests.crash.kit.lossy_disk import LAST_WORDS, LossyDisk, Plan


def main(plan: Plan, arguments: list[str]) -> int:
    kept = Path(process.parse_arguments(arguments).data_dir, "kept")
    kept.mkdir(parents=True, exist_ok=True)
    (kept / LAST_WORDS).unlink(missing_ok=True)
    disk = LossyDisk(plan, kept)
    setattr(process, "SystemIndexDisk", lambda: disk)  # noqa: B010 (it is not meant to be assigned)

    def cut(*_: object) -> None:
        # Not in this thread: it may hold a lock that the operations under way need to end.
        threading.Thread(target=disk.cut_power, args=("signal",), daemon=True).start()

    def arm(*_: object) -> None:
        disk.armed = True

    signal.signal(signal.SIGUSR1, cut)
    signal.signal(signal.SIGUSR2, arm)
    status = process.main(arguments)
    if (words := kept / LAST_WORDS).exists():  # an error was planned, and what came after it counts
        before = json.loads(words.read_text())
        words.write_text(json.dumps(before | {"retried": disk.retried}))
    else:
        words.write_text(json.dumps({"operation": "", "seen": disk.seen}))
    return status


if __name__ == "__main__":
    sys.exit(main(Plan(**json.loads(sys.argv[1])), sys.argv[2:]))
