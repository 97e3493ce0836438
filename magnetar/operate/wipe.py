"""PlannedRemoval of what an instance or a bookie has stored. It refuses while anything of it runs."""

import asyncio
import fcntl
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bookie.settings import PROGRAM as BOOKIE
from bookie.settings import ProcessSettings
from engine.base.errors import MagnetarError
from engine.base.loop import EventLoop
from engine.ledger.errors import MetadataFormatError
from engine.ledger.ledger_metadata import decode
from engine.metadata import paths
from engine.metadata.copying import walk
from engine.metadata.store import MetadataStore, NoNodeError
from engine.programs.program import connect
from gateway.standalone.data_folder import RESTORING, WIPING, held, own_paths, write_mark
from gateway.standalone.leftovers import leftovers
from magnetar.operate.place import OperatedPlace

SESSION_TIMEOUT_S = 30.0


class WipeError(MagnetarError):
    """A removal is refused, with nothing removed. The text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class PlannedRemoval:
    """Contents of a removal: files and folders, nodes of the metadata, and what is lost with them."""

    files: list[Path]
    nodes: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)


def wipe_instance(
    place: OperatedPlace, confirm: Callable[[PlannedRemoval], bool]
) -> PlannedRemoval | None:
    """Remove everything that the instance keeps in its data folder; return None when it is not confirmed.

    Killed in between, the folder has a mark with which no instance starts, and the same call continues. Raises
    WipeError, DataFolderError, OSError.
    """
    data = place.data_dir
    if place.cluster:
        raise WipeError(
            "the settings name a metadata store, so this is a cluster: wipe its bookies with --bookie, and its metadata"
            " with delete-cluster-metadata"
        )
    if not data.is_dir():
        raise WipeError(f"there is no folder {data}")
    with held(data):
        if pids := leftovers(data / "logs"):
            raise WipeError(f"processes of the instance still run: {', '.join(map(str, pids))}")
        files = [path for path in own_paths(data) if path.suffix != ".lock"]
        removal = PlannedRemoval(files)
        if not files or not confirm(removal):
            return None if files else removal
        write_mark(data, WIPING)
        # The mark is the last, so that a part that is left is not taken for an instance.
        for path in sorted(files, key=lambda path: path.name == RESTORING):
            remove(path)
        for path in own_paths(data):
            remove(path)
    return removal


def remove(path: Path) -> None:
    """Remove a file or a folder with all it has; a missing one is no error. A symbolic link is not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def wipe_bookie(
    environ: Mapping[str, str], directory: Path, confirm: Callable[[PlannedRemoval], bool]
) -> PlannedRemoval | None:
    """Remove a bookie's directories, then its cookie in the metadata; return None when it is not confirmed.

    The settings are the bookie's. Raises WipeError, SettingsError, StartError, MagnetarError, OSError.
    """
    settings = BOOKIE.load(environ, directory)

    async def run() -> PlannedRemoval | None:
        async with connect(settings.metadata, SESSION_TIMEOUT_S) as store:
            return await _wipe_bookie(store, settings, confirm)

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(run())


async def _wipe_bookie(
    store: MetadataStore, settings: ProcessSettings, confirm: Callable[[PlannedRemoval], bool]
) -> PlannedRemoval | None:
    bookie = settings.bookie
    bookie_id = bookie.bookie_id or f"{bookie.host}:{bookie.bookie_port}"
    for node in (paths.available_bookie(bookie_id), paths.read_only_bookie(bookie_id)):
        if await store.exists(node) is not None:
            raise WipeError(
                f"bookie {bookie_id} runs: stop it before, and wait until its session ends"
            )
    roots = [Path(name) for name in (bookie.journal_root, *bookie.ledger_roots)]
    for root in roots:
        if _is_locked(root / "current" / "index" / "LOCK"):
            raise WipeError(f"a bookie uses {root}: stop it before")
    files = [path for root in roots if (path := root / "current").exists()]
    cookie = paths.cookie(bookie_id)
    nodes = [cookie] if await store.exists(cookie) is not None else []
    removal = PlannedRemoval(files, nodes, await losses(store, bookie_id))
    if not (files or nodes):
        return removal
    if not confirm(removal):
        return None
    for path in files:
        shutil.rmtree(path)
    # The cookie last: a bookie without disks and with a cookie refuses to start.
    for node in nodes:
        await _ignoring_missing(lambda node=node: store.delete(node))  # type: ignore[misc]
    return removal


async def losses(store: MetadataStore, bookie_id: str) -> list[str]:
    """Return what is lost with a bookie's disks: ledgers with a copy there, and those with no other copy."""
    copies = only = 0
    async for node in walk(store, start=paths.LEDGERS):
        if paths.ledger_id(node.path) is None:
            continue
        try:
            metadata = decode(node.value)
        except MetadataFormatError:
            continue
        if any(bookie_id in segment.bookies for segment in metadata.segments):
            copies += 1
            only += metadata.write_quorum == 1
    texts = [f"{copies} ledgers have a copy of entries there"] if copies else []
    if only:
        texts.append(f"{only} of them have no other copy: their messages are lost")
    return texts


async def _ignoring_missing(delete: Callable[[], Awaitable[None]]) -> None:
    try:
        await delete()
    except NoNodeError:
        return


def _is_locked(path: Path) -> bool:
    """Return whether another process has locked the index."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
