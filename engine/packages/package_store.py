"""Packages in storage: content in ledgers of one entry each, a node that names them for each version.

An upload is a node of its own until the version is stored, and a deletion is one again, so that a process that ends in
between leaves no ledger that no node names. The first upload after ``ABANDONED_AFTER_MS`` deletes what it left.
"""

import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import AlreadyExists, Failed, InvalidRequest, NotFound, NotReady
from engine.base.names import NamespaceName, decode_name
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.metadata.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from engine.metadata.update import update
from engine.packages.package_name import LATEST, PackageName

_UPLOAD = re.compile(r"[0-9]{1,15}-[0-9a-f]{16}")
log = logging.getLogger(__name__)

PART_BYTES_MAX = 2 << 20
"""Bytes of a part, which is one entry; an operation's arguments with it in base64 have less than 4 MiB."""
PARTS_MAX = 1_024
METADATA_BYTES_MAX = 64 << 10
ABANDONED_AFTER_MS = 3_600_000
OWNER = "magnetar/package"
"""Key in a ledger's metadata, with the package's URL."""
_SHOWN = ("description", "contact", "createTime", "modificationTime", "properties")

PackageRecord = dict[str, Any]
"""A version's node: Pulsar's PackageMetadata with ``size``, ``sha256``, ``fileName`` and ``parts``, ids of ledgers."""


class PackageStore:
    """The packages, for one broker. Methods raise NotReady while storage does not answer, and the metadata store's
    errors."""

    def __init__(
        self,
        store: MetadataStore,
        ledgers: LedgerClient,
        config: LedgerConfig,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        """Create a store. ``config``: the replication of packages' ledgers."""
        self._store = store
        self._ledgers = ledgers
        self._config = config
        self._clock = clock
        self._entropy = entropy

    # Reading

    async def names(self, kind: str, namespace: NamespaceName) -> list[str]:
        """Return the names of the packages of a kind, sorted."""
        return await self._children(paths.packages(kind, str(namespace)))

    async def versions(self, kind: str, namespace: NamespaceName, name: str) -> list[str]:
        """Return the versions of a package, sorted; empty without the package."""
        return await self._children(paths.package(kind, str(namespace), name))

    async def _children(self, path: str) -> list[str]:
        try:
            return sorted(decode_name(name) for name in await self._store.children(path))
        except NoNodeError:
            return []

    async def metadata(self, name: PackageName) -> PackageRecord:
        """Return PackageMetadata with ``size``, ``sha256``, ``fileName``, ``parts`` (a number) and ``version``.

        Raises NotFound.
        """
        version, record = await self._resolved(name, " metadata")
        return shown(record) | {
            "size": record["size"],
            "sha256": record["sha256"],
            "fileName": record["fileName"],
            "parts": len(record["parts"]),
            "version": version,
        }

    async def part(self, name: PackageName, number: int) -> bytes:
        """Return a part of the content. Raises NotFound."""
        _, record = await self._resolved(name)
        if not 0 <= number < len(record["parts"]):
            raise NotFound(f"Package '{name}' has no part {number}")
        ledger_id = record["parts"][number]
        try:
            ledger = await self._ledgers.open(ledger_id, recover=False)
            (run,) = await ledger.read(0, 0, PART_BYTES_MAX + 1)
        except NoSuchLedgerError as error:
            raise NotFound(f"Package '{name}' does not exist") from error
        except (LedgerError, ValueError) as error:
            raise NotReady(f"Package '{name}' cannot be read now: {error}") from error
        return bytes(run.entry(0))

    async def _resolved(self, name: PackageName, what: str = "") -> tuple[str, PackageRecord]:
        """Return the version and record of a name. Raises NotFound."""
        record: PackageRecord | None
        if name.version != LATEST:
            record = await self._record(name)
            if record is not None:
                return name.version, record
        else:
            versions = await self.versions(name.kind, name.namespace, name.name)
            records = [(v, await self._record(name._replace(version=v))) for v in versions]
            known = [(v, record) for v, record in records if record is not None]
            if known:
                return max(known, key=lambda item: item[1]["storedMs"])
        raise NotFound(f"Package '{name}'{what} does not exist")

    async def _record(self, name: PackageName) -> PackageRecord | None:
        try:
            value, _ = await self._store.get(_path(name))
        except NoNodeError:
            return None
        return _parse(value, name)

    # Changes

    async def begin(self, name: PackageName) -> str:
        """Begin an upload and return its id. Raises AlreadyExists."""
        if name.version == LATEST:
            raise InvalidRequest(f"version: must not be {LATEST}")
        if await self._store.exists(_path(name)) is not None:
            raise _exists(name)
        await self._sweep()
        upload = self._upload_id()
        await self._keep(upload, name, [])
        return upload

    async def add(self, name: PackageName, upload: str, data: bytes) -> None:
        """Store the next part of an upload. One call at a time. Raises NotFound for an unknown upload."""
        if not 0 < len(data) <= PART_BYTES_MAX:
            raise InvalidRequest(f"data: must have 1 to {PART_BYTES_MAX} bytes")
        pending = await self._pending(upload, name)
        if len(pending) >= PARTS_MAX:
            raise InvalidRequest(f"data: a package has at most {PARTS_MAX} parts")
        ledger_id = await self._write(name, data)
        try:
            await update(
                self._store,
                paths.package_upload(upload),
                lambda value: _with_part(value, ledger_id),
            )
        except NoNodeError as error:  # abandoned meanwhile
            await self._ledgers.delete(ledger_id)
            raise NotFound(f"There is no upload {upload}") from error

    async def finish(self, name: PackageName, upload: str, described: Mapping[str, Any]) -> None:
        """Store a version of which all parts are stored. ``described``: see ``PackageRecord``.

        Raises AlreadyExists, NotFound for an unknown upload.
        """
        parts = await self._pending(upload, name)
        now_ms = self._clock.wall_ms()
        times = {"createTime": now_ms, "modificationTime": now_ms, "storedMs": now_ms}
        record = dict(described) | times | {"parts": parts}
        try:
            await self._store.create(_path(name), _encode(record), make_parents=True)
        except NodeExistsError as error:
            raise _exists(name) from error
        await self._forget(upload)

    async def abandon(self, name: PackageName, upload: str) -> None:
        """Delete what an upload has stored. Safe to repeat."""
        with suppress(NotFound):
            for ledger_id in await self._pending(upload, name):
                await self._ledgers.delete(ledger_id)
            await self._forget(upload)

    async def change_metadata(self, name: PackageName, described: Mapping[str, Any]) -> None:
        """Replace description, contact and properties. Raises NotFound."""

        def change(value: bytes) -> bytes:
            record = _parse(value, name)
            kept = {key: value for key, value in record.items() if key not in _SHOWN}
            times = {
                "createTime": record["createTime"],
                "modificationTime": self._clock.wall_ms(),
            }
            return _encode(kept | times | dict(described))

        try:
            await update(self._store, _path(name), change)
        except NoNodeError as error:
            raise NotFound(f"Package '{name}' metadata does not exist") from error

    async def delete(self, name: PackageName) -> None:
        """Delete a version. Raises NotFound."""
        record = await self._record(name)
        if record is None:
            raise NotFound(f"Package '{name}' does not exist")
        doomed = self._upload_id()
        await self._keep(doomed, name, record["parts"])
        with suppress(NoNodeError):
            await self._store.delete(_path(name))
        with suppress(NoNodeError, NotEmptyError):  # the last version's package
            await self._store.delete(paths.package(name.kind, str(name.namespace), name.name))
        for ledger_id in record["parts"]:
            await self._ledgers.delete(ledger_id)
        await self._forget(doomed)

    def _upload_id(self) -> str:
        return f"{self._clock.wall_ms()}-{self._entropy.hex(8)}"

    async def _write(self, name: PackageName, data: bytes) -> int:
        """Store a part and return its ledger."""
        try:
            ledger = await CursorLedger.create(
                self._ledgers, self._config, {OWNER: str(name).encode()}
            )
            try:
                await ledger.append(data)
                await ledger.close()
            except BaseException as error:
                ledger.abandon("the part was not stored")
                if isinstance(error, LedgerError):
                    await self._ledgers.delete(ledger.ledger_id)
                raise
        except LedgerError as error:
            raise NotReady(f"Package '{name}' cannot be stored now: {error}") from error
        return ledger.ledger_id

    async def _pending(self, upload: str, name: PackageName) -> list[int]:
        """Return the parts of an upload of this package. Raises NotFound."""
        if _UPLOAD.fullmatch(upload) is None:
            raise NotFound("There is no such upload")
        try:
            value, _ = await self._store.get(paths.package_upload(upload))
        except NoNodeError as error:
            raise NotFound(f"There is no upload {upload}") from error
        pending = _parse(value, name)
        if pending["package"] != str(name):
            raise NotFound(f"There is no upload {upload} of '{name}'")
        return list(pending["parts"])

    async def _keep(self, upload: str, name: PackageName, parts: list[int]) -> None:
        value = _encode({"package": str(name), "parts": parts, "beganMs": self._clock.wall_ms()})
        await self._store.create(paths.package_upload(upload), value, make_parents=True)

    async def _forget(self, upload: str) -> None:
        with suppress(NoNodeError):
            await self._store.delete(paths.package_upload(upload))

    async def _sweep(self) -> None:
        """Delete what processes have left that ended while they stored or deleted a package."""
        before_ms = self._clock.wall_ms() - ABANDONED_AFTER_MS
        try:
            uploads = await self._store.children(paths.PACKAGE_UPLOADS)
        except NoNodeError:
            return
        for upload in uploads:
            began = upload.partition("-")[0]
            if not began.isdigit() or int(began) > before_ms:
                continue
            with suppress(NoNodeError):
                value, _ = await self._store.get(paths.package_upload(upload))
                pending = json.loads(value)
                # A version that was stored just before its upload was to be forgotten has its parts still.
                record = await self._record(PackageName.parse(pending["package"]))
                used = set() if record is None else set(record["parts"])
                for ledger_id in set(pending["parts"]) - used:
                    await self._ledgers.delete(ledger_id)
                await self._forget(upload)
                log.info("abandoned upload %s of %s is deleted", upload, pending["package"])


def shown(record: PackageRecord) -> PackageRecord:
    """Return Pulsar's PackageMetadata of a record."""
    return {key: record[key] for key in _SHOWN if record.get(key) is not None}


def _path(name: PackageName) -> str:
    return paths.package_version(name.kind, str(name.namespace), name.name, name.version)


def _exists(name: PackageName) -> AlreadyExists:
    return AlreadyExists(f"Package '{name}' metadata already exists")


def _encode(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def _parse(value: bytes, name: PackageName) -> PackageRecord:
    """Parse a node. Raises Failed."""
    try:
        record = json.loads(value)
        if isinstance(record["parts"], list):
            return dict(record)
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"Package '{name}' has a damaged record") from error
    raise Failed(f"Package '{name}' has a damaged record")


def _with_part(value: bytes, ledger_id: int) -> bytes:
    record = json.loads(value)
    record["parts"].append(ledger_id)
    return _encode(record)
