"""Modes and owners of files with secrets, looked at when they are read. Blocking, for the start of a process."""

import logging
import os
import stat
from functools import lru_cache
from pathlib import Path

log = logging.getLogger(__name__)

OTHERS = 0o077
"""Rights of the group and of all other users."""


def check_secret(path: str | os.PathLike[str]) -> None:
    """Log a warning, once for each state of the file, when others than this user and root may know its secret.

    A missing file is left to the caller, who reads it.
    """
    try:
        state = os.stat(path)
    except OSError:
        return
    for remedy in remedies(str(path), state.st_mode, state.st_uid, os.geteuid()):
        _warn(remedy)


def keep_secret(path: Path) -> None:
    """Restrict a file that is an instance's own to its user, and log that; as ``check_secret`` where it is another
    user's."""
    try:
        state = path.lstat()
        if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and state.st_mode & OTHERS:
            path.chmod(stat.S_IMODE(state.st_mode) & ~OTHERS)
            log.warning("%s was open to other users: it is for this user alone now", path)
    except OSError as error:
        log.warning("the mode of %s cannot be changed: %s", path, error.strerror)
    check_secret(path)


def remedies(path: str, mode: int, owner: int, user: int) -> list[str]:
    """Return what is wrong with a file of ``mode`` and ``owner`` that the process of ``user`` reads, with commands that
    mend it; an empty list for nothing."""
    problems = []
    if owner not in (user, 0):
        problems.append(
            f"{path} has a secret and belongs to another user ({owner}), who can read and change it: "
            f"chown {user} {path}"
        )
    if mode & OTHERS:
        problems.append(
            f"{path} has a secret that other users may read (mode {stat.S_IMODE(mode):04o}): "
            f"chmod {stat.S_IMODE(mode) & 0o700:03o} {path}"
        )
    return problems


@lru_cache(maxsize=64)
def _warn(problem: str) -> None:
    """Log a problem, once as long as it is the same."""
    log.warning("%s", problem)
