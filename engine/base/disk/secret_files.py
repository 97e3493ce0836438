"""Modes and owners of files with secrets, checked when they are read. Blocking, for the start of a process."""

import logging
import os
import shlex
import stat
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.base.settings import SettingsError

log = logging.getLogger(__name__)

OTHERS = 0o077
"""Rights of the group and of all other users."""
RESTRICTED = "%s was open to other users: it is for this user alone now"
"""Report of a file that was restricted."""


def check_secret(path: str | os.PathLike[str]) -> None:
    """Log a warning, once for each state of the file, when others than this user and root may know its secret.

    A missing file is left to the caller, who reads it.
    """
    try:
        state = os.stat(path)
    except OSError:
        return
    ours = state.st_gid in (os.getegid(), *os.getgroups())
    for remedy in remedies(str(path), state.st_mode, state.st_uid, os.geteuid(), in_group=ours):
        _warn(remedy)


def read_secret(text: str, setting: str) -> str:
    """Return the secret that a setting states: ``text``, or the contents of the file that ``file:///path`` names,
    without blanks around them. The mode of the file is checked.

    Raises SettingsError, which names the setting and the file, when it cannot be read.
    """
    if not text.startswith("file:"):
        return text
    path = unquote(urlsplit(text).path)
    check_secret(path)
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SettingsError(f"{setting}: cannot read {path}: {reason}") from error


def keep_secret(path: Path) -> None:
    """Restrict an instance's own file to its user, and log that; check it as ``check_secret`` does, also when it is
    another user's."""
    try:
        state = path.lstat()
        is_own = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid()
        if is_own and restrict(path):
            log.warning(RESTRICTED, path)
    except OSError as error:
        log.warning("the mode of %s cannot be changed: %s", path, error.strerror)
    check_secret(path)


def restrict(path: Path) -> bool:
    """Remove the rights of the group and of other users from a file or folder. Return whether there were any.

    A symbolic link is not followed, because its target may belong to another program. Raises OSError.
    """
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode) or not mode & OTHERS:
        return False
    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    return True


def remedies(path: str, mode: int, owner: int, user: int, *, in_group: bool = False) -> list[str]:
    """Return the problems of a file of ``mode`` and ``owner`` that the process of ``user`` reads, with commands that
    correct them. ``in_group``: the process is in the file's group."""
    problems = []
    if owner not in (user, 0):
        problems.append(
            f"{path} has a secret and belongs to another user ({owner}), who can read and change it: "
            f"chown {user} {shlex.quote(path)}"
        )
    # Of a file of root's, as packages and Kubernetes make it: its group is that of the program.
    allowed = stat.S_IRGRP if in_group and owner == 0 != user else 0
    if mode & OTHERS & ~allowed:
        problems.append(
            f"{path} has a secret that other users may read (mode {stat.S_IMODE(mode):04o}): "
            f"chmod {stat.S_IMODE(mode) & 0o700:03o} {shlex.quote(path)}"
        )
    return problems


@lru_cache(maxsize=64)
def _warn(problem: str) -> None:
    """Log a problem, once as long as it is the same."""
    log.warning("%s", problem)
