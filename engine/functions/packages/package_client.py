"""Client of the brokers' packages: content in pieces, whatever its size."""

import hashlib
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Protocol

from engine.admin.client import BrokerAddress
from engine.base.errors import Failed, MagnetarError, NotFound, NotReady
from engine.base.names import NamespaceName
from engine.packages.package_name import PackageName
from engine.packages.package_operations import (
    ABANDON_PACKAGE,
    ADD_PACKAGE_PART,
    BEGIN_PACKAGE,
    DELETE_PACKAGE,
    DESCRIBE_PACKAGE,
    PACKAGE_METADATA,
    PACKAGE_PART,
    PACKAGE_VERSIONS,
    PACKAGES,
    STORE_PACKAGE,
    AddPart,
    DescribePackage,
    JsonObject,
    OnPackage,
    OnPackageName,
    OnPackages,
    OnUpload,
    PackageDescription,
    PackagePart,
    StorePackage,
    Via,
)
from engine.packages.package_store import PART_BYTES_MAX
from engine.rpc.operation import A, Operation, R

log = logging.getLogger(__name__)


class PackageBrokers(Protocol):
    """The brokers, as ``engine.admin.client.AdminClient`` calls them."""

    async def brokers(self) -> list[BrokerAddress]: ...

    async def call_on(
        self, broker: BrokerAddress, operation: Operation[A, R], args: A, *, principal: str = ""
    ) -> R: ...


class PackageClient:
    """Packages for one caller. Methods raise Refusals, NotReady while no broker answers.

    ``principal``: the client for which the calls are made; empty for the process's own. ``via``: the action by which it
    may make them.
    """

    def __init__(
        self, brokers: PackageBrokers, *, principal: str = "", via: Via = "packages"
    ) -> None:
        self._brokers = brokers
        self._principal = principal
        self._via = via

    async def names(self, kind: str, namespace: NamespaceName) -> list[str]:
        """Return the names of the packages of a kind, sorted."""
        return await self._call(PACKAGES, OnPackages(namespace, kind, self._via))  # type: ignore[arg-type]

    async def versions(self, kind: str, namespace: NamespaceName, name: str) -> list[str]:
        """Return the versions of a package, sorted; empty without the package."""
        args = OnPackageName(namespace, kind, self._via, name)  # type: ignore[arg-type]
        return await self._call(PACKAGE_VERSIONS, args)

    async def metadata(self, name: PackageName) -> JsonObject:
        """Return the answer of PACKAGE_METADATA. Raises NotFound."""
        return await self._call(PACKAGE_METADATA, OnPackage(**self._of(name)))

    async def resolved(self, name: PackageName) -> PackageName:
        """Return the name with the version that it stands for now. Raises NotFound."""
        return name._replace(version=(await self.metadata(name))["version"])

    async def content(self, name: PackageName) -> AsyncIterator[bytes]:
        """Return the content in pieces. Raises NotFound before the first; Failed at the end of damaged content."""
        try:
            described = await self.metadata(name)
        except NotFound as error:
            raise NotFound(f"Package '{name}' does not exist") from error
        resolved = name._replace(version=described["version"])
        first = await self._part(resolved, 0) if described["parts"] else b""
        return self._pieces(resolved, described, first)

    async def _pieces(
        self, name: PackageName, described: JsonObject, first: bytes
    ) -> AsyncIterator[bytes]:
        digest = hashlib.sha256(first)
        yield first
        for number in range(1, described["parts"]):
            piece = await self._part(name, number)
            digest.update(piece)
            yield piece
        if digest.hexdigest() != described["sha256"]:
            raise Failed(f"Package '{name}' is damaged: its content has another SHA-256")

    async def _part(self, name: PackageName, number: int) -> bytes:
        data = await self._call(PACKAGE_PART, PackagePart(**self._of(name), number=number))
        return b64decode(data)

    async def store(
        self,
        name: PackageName,
        content: bytes | memoryview,
        file_name: str = "",
        described: PackageDescription | None = None,
    ) -> None:
        """Store a version. Raises AlreadyExists. What a failed or cancelled call has stored is deleted."""
        upload = await self._call(BEGIN_PACKAGE, OnPackage(**self._of(name)))
        view, digest = memoryview(content), hashlib.sha256()
        try:
            for start in range(0, len(view), PART_BYTES_MAX):
                piece = view[start : start + PART_BYTES_MAX]
                digest.update(piece)
                data = b64encode(piece).decode()
                await self._call(
                    ADD_PACKAGE_PART, AddPart(**self._of(name), upload=upload, data=data)
                )
            args = StorePackage(
                **self._of(name),
                upload=upload,
                size=len(view),
                sha256=digest.hexdigest(),
                file_name=file_name,
                described=described or PackageDescription(),
            )
            await self._call(STORE_PACKAGE, args)
        except BaseException:
            # What remains when this fails is deleted by a later upload.
            with suppress(MagnetarError):
                await self._call(ABANDON_PACKAGE, OnUpload(**self._of(name), upload=upload))
            raise
        finally:
            view.release()

    async def describe(self, name: PackageName, described: PackageDescription) -> None:
        """Replace what people say of a version. Raises NotFound."""
        await self._call(DESCRIBE_PACKAGE, DescribePackage(**self._of(name), described=described))

    async def delete(self, name: PackageName) -> None:
        """Delete a version. Raises NotFound."""
        await self._call(DELETE_PACKAGE, OnPackage(**self._of(name)))

    def _of(self, name: PackageName) -> dict[str, Any]:
        """Return the arguments that all operations on a version have."""
        return {
            "namespace": name.namespace,
            "kind": name.kind,
            "via": self._via,
            "name": name.name,
            "version": name.version,
        }

    async def _call(self, operation: Operation[A, R], args: A) -> R:
        """Call the first broker that answers."""
        last = NotReady("No broker is available")
        for broker in await self._brokers.brokers():
            try:
                return await self._brokers.call_on(
                    broker, operation, args, principal=self._principal
                )
            except NotReady as error:
                last = error
                if not operation.reads:
                    raise
        raise last
