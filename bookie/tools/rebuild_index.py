"""Put a stopped bookie's index aside, so that it is rebuilt: ``python -m bookie.tools.rebuild_index LEDGER_DIR``.

LEDGER_DIR is the first ledger directory. The index is renamed; the next start rebuilds it from manifest and entry logs
before the bookie serves. Refused while a bookie runs there, and when there is no manifest to rebuild from unless
``--accept-limbo`` is given: every ledger would then be fenced and in limbo: the bookie answers a missing entry with an
error, never with "no such entry".
"""

import sys
from collections.abc import Sequence

from bookie.storage.errors import DamagedError, StorageError
from bookie.storage.index.manifest import read_manifest
from bookie.storage.mark import read_mark
from engine.base.disk.index_disk import IndexDisk, SystemIndexDisk
from engine.base.errors import MagnetarError
from engine.base.settings import ProgramParser


def set_aside(disk: IndexDisk, directory: str, *, accept_limbo: bool) -> str:
    """Rename the index in the ledger directory's ``current`` and return its new path. Raises StorageError, OSError."""
    path = f"{directory}/index"
    checkpoint = read_mark(disk, directory)
    try:
        read_manifest(disk, directory, checkpoint.manifest)
    except DamagedError as error:
        if not accept_limbo:
            raise StorageError(f"{error}; --accept-limbo rebuilds from the logs alone") from error
    if not disk.exists(path):
        raise StorageError(f"{path} is missing already: start the bookie, it will be rebuilt")
    try:
        disk.open_index(path).close()  # fails on its lock while a bookie runs
    except Exception as error:
        if "lock" in str(error).lower():
            raise StorageError(f"{path} is in use: stop the bookie first") from error
    aside = next(
        name for i in range(1, 1000) if not disk.exists(name := f"{directory}/index.lost-{i}")
    )
    disk.rename(path, aside)
    disk.sync_dir(directory)
    return aside


def main(argv: Sequence[str]) -> int:
    parser = ProgramParser(prog="magnetar bookie rebuild-index", description=__doc__)
    parser.add_argument("directory", metavar="LEDGER_DIR")
    parser.add_argument("--accept-limbo", action="store_true")
    arguments = parser.parse_args(argv)
    directory = f"{arguments.directory.rstrip('/').removesuffix('/current')}/current"
    try:
        aside = set_aside(SystemIndexDisk(), directory, accept_limbo=arguments.accept_limbo)
    except (MagnetarError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"the index is now {aside}; the next start makes a new one")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
