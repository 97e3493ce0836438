"""A process of an instance ends at the end of its lease, whatever it does, and never runs behind it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.instance import ROOT
from tests.support.waiting import until_blocking

PROGRAM = """
import asyncio, subprocess, sys, time
from engine.base.clock import SystemClock
from engine.functions.instance.process_lease import ProcessLease

async def main(lease_s, renewals, does):
    lease = ProcessLease(SystemClock())
    lease.renew(time.monotonic() + lease_s)
    if does == "child":
        print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
    elif does == "lock":
        print("locked", flush=True)
        sum(range(10**12))
    for _ in range(renewals):
        await asyncio.sleep(lease_s / 4)
        lease.renew(time.monotonic() + lease_s)
        print("renewed", flush=True)
    while True:
        print(time.monotonic(), flush=True)
        await asyncio.sleep(0.02)

asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
"""
LEASE_S = 1.5


@contextmanager
def process(does: str, renewals: int = 0) -> Iterator["subprocess.Popen[bytes]"]:
    arguments = [sys.executable, "-c", PROGRAM, str(LEASE_S), str(renewals), does]
    started = subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def lines_of(started: "subprocess.Popen[bytes]") -> list[str]:
    output, _ = started.communicate(timeout=60)
    return output.decode().splitlines()


def test_it_ends_with_its_children_and_says_why() -> None:
    with process("child") as started:
        output, errors = started.communicate(timeout=60)
        child = Path("/proc") / output.split()[0].decode() / "cmdline"
        assert started.returncode == -signal.SIGKILL
        assert b"its lease was not renewed" in errors
        until_blocking(lambda: not child.exists() or not child.read_bytes(), "the child to end")


def test_it_runs_as_long_as_the_lease_is_renewed() -> None:
    with process("nothing", renewals=8) as started:
        lines = lines_of(started)
    assert lines.count("renewed") == 8
    assert started.returncode == -signal.SIGKILL


def test_code_that_keeps_pythons_lock_does_not_hold_it_up() -> None:
    with process("lock") as started:
        assert started.stdout is not None
        started.stdout.readline()
        began = time.monotonic()
        assert started.wait(60) == -signal.SIGALRM
        assert time.monotonic() - began < 30


def test_a_process_that_was_suspended_beyond_its_lease_never_runs_again() -> None:
    with process("nothing") as started:
        assert started.stdout is not None
        first = float(started.stdout.readline())
        os.kill(started.pid, signal.SIGSTOP)
        until_blocking(lambda: time.monotonic() > first + LEASE_S + 0.5, "the end of the lease")
        continued = time.monotonic()
        os.kill(started.pid, signal.SIGCONT)
        times = [float(line) for line in lines_of(started)]
    assert started.returncode == -signal.SIGALRM
    assert not [at for at in times if at > continued]


def test_a_lease_that_is_over_already_ends_it_at_once() -> None:
    code = PROGRAM.replace("time.monotonic() + lease_s)", "float('-inf'))", 1)
    done = subprocess.run(
        [sys.executable, "-c", code, "1", "0", "nothing"],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        start_new_session=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_without_a_lease_it_runs_on() -> None:
    code = PROGRAM.replace("    lease.renew(time.monotonic() + lease_s)\n    if", "    if", 1)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(LEASE_S), "0", "nothing"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as started:
        assert started.stdout is not None
        first = float(started.stdout.readline())
        while float(started.stdout.readline()) < first + LEASE_S + 0.5:
            pass
        started.kill()
