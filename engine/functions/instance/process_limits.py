"""Limits of an instance's process, set by itself before the user's code is loaded."""

import ctypes
import resource
import sys

OWN_BYTES = 256 * 1024 * 1024
"""Memory that the instance itself may need beyond the memory that the function was given."""
FILES_MAX = 1024
THREADS_MAX = 1024
"""Processes and threads of a user that one instance alone has."""
NO_NEW_PRIVILEGES = 38
"""Number of PR_SET_NO_NEW_PRIVS: a program with the bit set-user-ID runs as the user who starts it."""


def set_limits(ram_bytes: int, disk_bytes: int, *, own_user: bool = False) -> None:
    """Limit memory, the size of files and their number; no core is dumped, since it would hold secrets.

    Memory is that of data (RLIMIT_DATA): address space is no measure, since threads and RocksDB reserve much more than
    they use. 0: no limit. ``own_user``: limit the processes of this user, too.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if own_user:
        _limit(resource.RLIMIT_NPROC, THREADS_MAX)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, FILES_MAX)
    if ram_bytes and sys.platform == "linux":
        _limit(resource.RLIMIT_DATA, ram_bytes + OWN_BYTES)
    if disk_bytes:
        _limit(resource.RLIMIT_FSIZE, disk_bytes)


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(kind, (most, most))
