"""Users of the operating system that instances run as, so that user code cannot read what the worker can."""

import grp
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import engine
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceUser

ROOT = str(Path(engine.__file__).parents[1])
"""The folder that ``engine`` is imported from."""
NEEDED = {0: "CAP_CHOWN", 1: "CAP_DAC_OVERRIDE", 5: "CAP_KILL", 6: "CAP_SETGID", 7: "CAP_SETUID"}
"""Capabilities by their number: to hand folders over, to remove them, to end instances, and to switch."""
USERS_MAX = 65_536
PROBE = (
    "import os, sys; sys.path.insert(0, sys.argv[1]); import engine.functions.instance.__main__; "
    "open(os.path.join(sys.argv[2], 'probe'), 'w').close(); [open(path).close() for path in sys.argv[3:]]"
)
PROBE_S = 60.0
END_ALL = "import os, sys; os.getuid() == int(sys.argv[1]) != 0 and os.kill(-1, 9)"


class InstanceUsers:
    """The users of a worker's instances: one for all, or a range of which each instance has its own."""

    def __init__(self, uids: Sequence[int], gid: int | None = None) -> None:
        """``gid``: the group of a single user; None: the number of each user."""
        self._uids = uids
        self._gid = gid
        self._taken: set[int] = set()

    @classmethod
    def parse(cls, text: str) -> "InstanceUsers":
        """Return the users of a name, a number, or a range ``FIRST-LAST`` of numbers. Raises InstanceError."""
        first, dash, last = text.partition("-")
        if dash and first.isdigit() and last.isdigit():
            return cls._range(int(first), int(last))
        try:
            entry = pwd.getpwuid(int(text)) if text.isdigit() else pwd.getpwnam(text)
        except KeyError:
            if not text.isdigit():
                raise InstanceError(f"there is no user {text!r}") from None
            return cls([_usable(int(text))])
        if entry.pw_gid == os.getegid():
            raise InstanceError(
                f"user {text} has the worker's group, and can read the group's files"
            )
        return cls([_usable(entry.pw_uid)], entry.pw_gid)

    @classmethod
    def _range(cls, first: int, last: int) -> "InstanceUsers":
        if not first <= last < first + USERS_MAX:
            raise InstanceError(
                f"a range FIRST-LAST has 1 to {USERS_MAX} numbers, not {first}-{last}"
            )
        uids = range(first, last + 1)
        named = [entry.pw_name for entry in pwd.getpwall() if entry.pw_uid in uids]
        named += [entry.gr_name for entry in grp.getgrall() if entry.gr_gid in uids]
        if named:
            raise InstanceError(
                f"{first}-{last} has numbers of the users or groups {', '.join(named[:5])}"
            )
        return cls([*map(_usable, uids)])

    @property
    def are_shared(self) -> bool:
        """True when all instances have the same user, and so can read each other's files."""
        return len(self._uids) == 1

    def take(self) -> InstanceUser:
        """Return the user of a new instance. Raises InstanceError when all are taken."""
        if self.are_shared:
            uid = self._uids[0]
            return InstanceUser(uid, uid if self._gid is None else self._gid)
        uid = next((uid for uid in self._uids if uid not in self._taken), -1)
        if uid < 0:
            raise InstanceError(
                f"all {len(self._uids)} users of run_as_user are taken by instances"
            )
        self._taken.add(uid)
        return InstanceUser(uid, uid, own=True)

    def give(self, user: InstanceUser) -> None:
        """Give a user back, of which no process is left."""
        self._taken.discard(user.uid)

    def check(self, folder: Path, readable: Sequence[Path] = ()) -> None:
        """Check that this process may switch to the users, and that they can run instances below ``folder``, which is
        there, and read the files ``readable``.

        Blocks for the start of a process. Raises InstanceError with what is missing.
        """
        missing = missing_capabilities()
        if missing:
            raise InstanceError(
                f"this process lacks {', '.join(missing)}: run it as root, or grant them"
            )
        uid = self._uids[0]
        home = folder / f"probe-{uid}"
        home.mkdir(mode=0o700, exist_ok=True)
        try:
            user = InstanceUser(uid, uid if self._gid is None else self._gid)
            os.chown(home, user.uid, user.gid)
            self._probe(user, home, readable)
        finally:
            with suppress(FileNotFoundError):
                (home / "probe").unlink()
            home.rmdir()

    def _probe(self, user: InstanceUser, home: Path, readable: Sequence[Path]) -> None:
        command = [sys.executable, "-I", "-c", PROBE, ROOT, str(home), *map(str, readable)]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_S,
                check=False,
                env={},
                cwd="/",
                **identity_of(user),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InstanceError(f"user {user.uid} cannot run {sys.executable}: {error}") from error
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
            raise InstanceError(
                f"user {user.uid} cannot run an instance in {home.parent}: {lines[-1]}"
            )

    def end_left_over(self) -> None:
        """End all processes of a range of users: instances of a worker that was killed may have left some. Blocks."""
        if self.are_shared:
            return
        uids = set(self._uids)
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with suppress(OSError):
                    uid = folder.stat().st_uid
                    if uid in uids:
                        uids.discard(uid)
                        end_processes(InstanceUser(uid, uid, own=True))


def end_processes(user: InstanceUser) -> None:
    """End every process of a user that one instance alone has, also those that left its group. Blocks."""
    if user.own:
        subprocess.run(
            [sys.executable, "-I", "-c", END_ALL, str(user.uid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            env={},
            cwd="/",
            **identity_of(user),
        )


def identity_of(user: InstanceUser | None) -> dict[str, Any]:
    """Return the arguments of ``subprocess`` that start a process as a user; None: as this process's own."""
    if user is None:
        return {}
    return {"user": user.uid, "group": user.gid, "extra_groups": [], "umask": 0o077}


def missing_capabilities() -> list[str]:
    """Return the names of the capabilities that this process needs to run instances as other users, and lacks."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.split("CapEff:")[1].split()[0], 16)
    return [name for number, name in NEEDED.items() if not effective >> number & 1]


def give_to(folder: Path, user: InstanceUser) -> None:
    """Make a folder with all that is in it the user's. Nothing of the user may run yet that could change it."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)


def _usable(uid: int) -> int:
    """Return the number of a user that is neither root nor the worker's. Raises InstanceError."""
    if uid in (0, os.geteuid()):
        whose = "root" if uid == 0 else "the worker's own"
        raise InstanceError(f"user {uid} is {whose}: instances need another one")
    return uid
