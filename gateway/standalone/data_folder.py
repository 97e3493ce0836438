"""The data folder of an instance: its lock, its files beside metadata and ledgers, and the mark of a restore."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from engine.base.disk.files import SystemDisk

LOCK = "instance.lock"
RESTORING = "restore-incomplete"
"""File of a folder that is no whole instance: it has the id of the backup that is being restored, or WIPING."""
WIPING = "wipe"
CONSOLE = "console.sqlite3"
CLUSTERS = "clusters.json"
"""File with the names of the clusters of an instance that has several."""
OWN_PATHS = (
    *("zookeeper*", "metadata*", "redis", "spark", "logs", "runs", "java", "bookie-*"),
    *(
        "console.sqlite3*",
        "history.sqlite3*",
        "*.lock",
        "log4j2.properties",
        "fairscheduler.xml",
        "internal-token",
    ),
    *("set-up-code", "secure", "secret_key*", "clusters", CLUSTERS, RESTORING, "control.sock"),
)
"""Patterns of the files and folders that an instance creates in its data folder."""
_UNUSED = ("logs", "*.lock", RESTORING)
"""Patterns of what a folder without an instance may have."""


class DataFolderError(Exception):
    """The folder is in use, or cannot be used. The text is one line for the operator."""


class StoredFile(NamedTuple):
    """A file of an instance that a backup has. ``path`` is relative to the data folder."""

    path: str
    holds: str
    secret: bool = False
    sqlite: bool = False


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Keep the folder for this process, which no instance uses. Raises DataFolderError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataFolderError(f"cannot use {data_dir}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataFolderError(f"an instance runs on {data_dir}: stop it before") from None
        yield
    finally:
        os.close(lock)


def own_paths(data_dir: Path) -> list[Path]:
    """Return the files and folders of the instance that exist, sorted."""
    return sorted({path for pattern in OWN_PATHS for path in data_dir.glob(pattern)})


def used_paths(data_dir: Path) -> list[Path]:
    """Return those that a restore must not find."""
    unused = {path for pattern in _UNUSED for path in data_dir.glob(pattern)}
    return [path for path in own_paths(data_dir) if path not in unused]


def unfinished_restore(data_dir: Path) -> str:
    """Return the id of the backup whose restore was interrupted, or WIPING; empty for a whole folder."""
    try:
        return (data_dir / RESTORING).read_text().strip()
    except FileNotFoundError:
        return ""


def refusal(data_dir: Path) -> str:
    """Return why no instance starts on the folder and none is backed up; empty for a whole folder."""
    unfinished = unfinished_restore(data_dir)
    if unfinished == WIPING:
        return f"{data_dir} was removed in part: complete that with magnetar wipe"
    if unfinished:
        return (
            f"{data_dir} has a part of backup {unfinished}: complete it with magnetar restore, or remove it with"
            " magnetar wipe"
        )
    return ""


def write_mark(data_dir: Path, text: str) -> None:
    """Mark the folder as incomplete, durably. Raises OSError."""
    draft = data_dir / f"{RESTORING}.lock"
    with draft.open("w") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(data_dir / RESTORING)
    SystemDisk().sync_dir(str(data_dir))


def bookies(data_dir: Path) -> int:
    """Return the number of bookies whose data the folder has."""
    return len(list(data_dir.glob("bookie-[0-9]*")))


def stored_files(data_dir: Path) -> list[StoredFile]:
    """Return the instance's files beside metadata and ledgers that a backup has."""
    files = [
        StoredFile(CONSOLE, "people, sessions, audit log, saved views, runs", True, sqlite=True),
        StoredFile("history.sqlite3", "numbers of the past", sqlite=True),
        StoredFile("secret_key", "the key that signs sessions", True),
        StoredFile("internal-token", "the token of the instance's processes", True),
    ]
    for folder, holds, secret in (
        ("secure", "certificates, keys and tokens of --secure", True),
        ("clusters", "history and tokens of further clusters", True),
        ("runs", "results of analyses", False),
    ):
        files += [
            StoredFile(str(path.relative_to(data_dir)), holds, secret, path.suffix == ".sqlite3")
            for path in sorted((data_dir / folder).rglob("*"))
            if not any(part.startswith("bookie-") for part in path.relative_to(data_dir).parts[2:])
            and path.is_file()
            and not path.is_symlink()
            and not path.name.endswith(("-wal", "-shm"))
        ]
    return [file for file in files if (data_dir / file.path).is_file()]
