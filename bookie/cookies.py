"""The identity of a bookie: the cluster's id and the cookie that binds the bookie's id to its disks.

The same text is in each directory and in the metadata store. The bookie refuses to start when they differ, so that a
bookie with lost disks cannot return under its old id (I22, B6).
"""

from contextlib import suppress
from dataclasses import replace

from engine.base.disk.files import Disk
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.metadata import paths
from engine.metadata.layout import check_layout, create_ledgers
from engine.metadata.records import Cookie, RecordFormatError
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)

COOKIE_NAME = "VERSION"
STORE_LOST = (
    "The store's data was deleted, or another store or chroot is configured. Bring the data back, or correct the"
    " setting: without it the messages on the disks cannot be read. To begin anew without them, move the directories of"
    " all bookies of the cluster away"
)
"""Advice to an operator about disks whose cluster is not in the metadata store."""


class IdentityError(MagnetarError):
    """A disagreement of disks and metadata store about the bookie's identity. The message states what an operator can
    do."""


def cookie_text(
    bookie_id: str, journal_root: str, ledger_roots: list[str], instance_id: str
) -> bytes:
    """Return the cookie of a bookie with these directories, in BookKeeper's format."""
    return Cookie(bookie_id, [journal_root], ledger_roots, instance_id=instance_id or None).encode()


def read_local_cookies(disk: Disk, directories: list[str]) -> list[bytes | None]:
    """Return the cookie in each directory; None where there is none."""
    cookies: list[bytes | None] = []
    for directory in directories:
        try:
            file = disk.open(f"{directory}/{COOKIE_NAME}")
        except FileNotFoundError:
            cookies.append(None)
            continue
        cookies.append(file.pread(file.size(), 0))
        file.close()
    return cookies


def write_local_cookies(disk: Disk, directories: list[str], cookie: bytes) -> None:
    """Write the cookie to each directory, durably. At any time a directory has the old one or the new one."""
    for directory in directories:
        path = f"{directory}/{COOKIE_NAME}"
        file = disk.open(f"{path}.new", create=True)
        file.pwritev([cookie], 0)
        file.truncate(len(cookie))
        file.fdatasync()
        file.close()
        disk.rename(f"{path}.new", path)
        disk.sync_dir(directory)


async def instance_id(
    store: MetadataStore, entropy: Entropy, *, initialize: bool, used: bool = False
) -> str:
    """Return the cluster's id. With ``initialize`` the cluster's root nodes are created when missing.

    ``used``: the bookie's disks have a cookie, for the message of the IdentityError.
    """
    await check_layout(store)
    try:
        return (await store.get(paths.INSTANCE_ID))[0].decode().strip()
    except NoNodeError:
        if used:
            raise IdentityError(
                f"the disks have data, but {paths.INSTANCE_ID} is missing in the metadata store. {STORE_LOST}"
            ) from None
        if not initialize:
            raise IdentityError(
                f"{paths.INSTANCE_ID} is missing: the cluster is not initialized, or this is the wrong chroot"
            ) from None
    await create_ledgers(store, entropy)
    return (await store.get(paths.INSTANCE_ID))[0].decode().strip()


async def check_cookie(
    store: MetadataStore, bookie_id: str, cookie: bytes, local: list[bytes | None]
) -> bool:
    """Return whether this is a new bookie: neither disks nor store know it.

    Raises IdentityError when they disagree.
    """
    path = paths.cookie(bookie_id)
    stored: bytes | None = None
    # A read alone may miss a cookie written through another server of the store that this one has not received yet.
    if await store.exists(path) is not None:
        stored = (await store.get(path))[0]
    for text in local:
        if text is not None and text != cookie:
            expected = Cookie.decode(cookie)
            # Damaged by the disk it is no cookie at all, and gets the general message.
            with suppress(RecordFormatError):
                before = Cookie.decode(text)
                if replace(before, instance_id=expected.instance_id) == expected:
                    raise IdentityError(
                        f"the disks belong to cluster {before.instance_id}, and the metadata store is that of cluster"
                        f" {expected.instance_id}. {STORE_LOST}"
                    )
            raise IdentityError(
                "the cookie on disk belongs to another bookie, directory layout or cluster, or is damaged:\n"
                f"{text.decode(errors='replace')}expected:\n{cookie.decode()}"
            )
    if stored is not None and stored != cookie:
        raise IdentityError(
            f"{path} was written with other directories or for another cluster:\n{stored.decode(errors='replace')}"
            f"expected:\n{cookie.decode()}"
        )
    if stored is None and any(text is not None for text in local):
        raise IdentityError(
            f"the disks have a cookie but {path} is missing: wrong metadata store, or this bookie was decommissioned"
        )
    if stored is not None and None in local:
        raise IdentityError(
            f"{path} exists but the disks have no cookie: data is lost. Re-replicate what {bookie_id} held, delete "
            "that node, then start with empty directories"
        )
    return stored is None


async def expand_cookie(
    store: MetadataStore, bookie_id: str, cookie: bytes, local: dict[str, bytes | None]
) -> tuple[int, list[str]] | None:
    """Compare ``cookie`` with the store's: the same bookie with more ledger directories behind the known ones.

    Return the version of the store's cookie and the new directories; None when it is not such an extension. ``local``:
    the cookie in each directory, in the order of ``cookie``, the journal's first. Raises IdentityError when a directory
    that was used before has lost its cookie, or one has another bookie's.
    """
    path = paths.cookie(bookie_id)
    try:
        stored, stat = await store.get(path)
    except NoNodeError:
        return None
    previous, extended = Cookie.decode(stored), Cookie.decode(cookie)
    n = len(previous.ledger_dirs)
    if extended.ledger_dirs[:n] != previous.ledger_dirs or len(extended.ledger_dirs) == n:
        return None
    if replace(extended, ledger_dirs=previous.ledger_dirs) != previous:
        return None
    used = 1 + n
    for i, (directory, text) in enumerate(local.items()):
        if text not in ((stored, cookie) if i < used else (None, cookie)):
            raise IdentityError(
                f"{directory}: its cookie is {'missing' if text is None else 'of another bookie'}; "
                "no directories can be added now"
            )
    return stat.version, list(local)[used:]


async def reduced_cookie(
    store: MetadataStore, bookie_id: str, cookie: bytes, local: list[bytes | None]
) -> int | None:
    """Compare ``cookie`` with the store's: the same bookie with fewer ledger directories, of which the first stays.

    Return the version of the store's cookie; None when it is not such a reduction. ``local``: the cookies in the
    directories that are left. Raises IdentityError when one of them is missing or of another bookie.
    """
    path = paths.cookie(bookie_id)
    try:
        stored, stat = await store.get(path)
    except NoNodeError:
        return None
    previous, reduced = Cookie.decode(stored), Cookie.decode(cookie)
    left = [name for name in previous.ledger_dirs if name in reduced.ledger_dirs]
    if left != reduced.ledger_dirs or left == previous.ledger_dirs:
        return None
    if left[:1] != previous.ledger_dirs[:1] or (
        replace(previous, ledger_dirs=reduced.ledger_dirs) != reduced
    ):
        return None
    if any(text not in (stored, cookie) for text in local):
        raise IdentityError(
            f"{path}: a directory that is left has no cookie, or another bookie's; none can be left out now"
        )
    return stat.version


async def write_cookie(
    store: MetadataStore, bookie_id: str, cookie: bytes, version: int | None = None
) -> None:
    """Write a new bookie's cookie to the store; succeeds again after an interrupted start.

    With ``version`` the stored cookie is replaced if it still has that version. Raises IdentityError.
    """
    path = paths.cookie(bookie_id)
    if version is not None:
        try:
            await store.put(path, cookie, version)
        except BadVersionError:
            raise IdentityError(f"{path} was written by another bookie just now") from None
        return
    try:
        await store.create(path, cookie, make_parents=True)
    except NodeExistsError:
        if (await store.get(path))[0] != cookie:
            raise IdentityError(f"{path} was written by another bookie just now") from None
