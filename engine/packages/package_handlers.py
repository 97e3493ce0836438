"""Handlers of the operations on packages, for a broker."""

from base64 import b64decode, b64encode
from typing import Any

from engine.base.errors import InvalidField
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
)
from engine.packages.package_store import METADATA_BYTES_MAX, PackageStore
from engine.rpc.operation import Handlers, bind


class PackageOperations:
    """Handlers of the operations, which ``engine.packages.package_operations`` describes."""

    def __init__(self, packages: PackageStore) -> None:
        self._packages = packages

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(PACKAGES, self.names),
                bind(PACKAGE_VERSIONS, self.versions),
                bind(PACKAGE_METADATA, self.metadata),
                bind(PACKAGE_PART, self.part),
                bind(BEGIN_PACKAGE, self.begin),
                bind(ADD_PACKAGE_PART, self.add),
                bind(STORE_PACKAGE, self.store),
                bind(ABANDON_PACKAGE, self.abandon),
                bind(DESCRIBE_PACKAGE, self.describe),
                bind(DELETE_PACKAGE, self.delete),
            ]
        )

    async def names(self, args: OnPackages) -> list[str]:
        return await self._packages.names(args.kind, args.namespace)

    async def versions(self, args: OnPackageName) -> list[str]:
        return await self._packages.versions(args.kind, args.namespace, args.name)

    async def metadata(self, args: OnPackage) -> JsonObject:
        return await self._packages.metadata(args.package)

    async def part(self, args: PackagePart) -> str:
        return b64encode(await self._packages.part(args.package, args.number)).decode()

    async def begin(self, args: OnPackage) -> str:
        return await self._packages.begin(args.package)

    async def add(self, args: AddPart) -> None:
        try:
            data = b64decode(args.data, validate=True)
        except ValueError as error:
            raise InvalidField("data", "must be base64") from error
        await self._packages.add(args.package, args.upload, data)

    async def store(self, args: StorePackage) -> None:
        content = {"size": args.size, "sha256": args.sha256, "fileName": args.file_name}
        await self._packages.finish(args.package, args.upload, _described(args.described) | content)

    async def abandon(self, args: OnUpload) -> None:
        await self._packages.abandon(args.package, args.upload)

    async def describe(self, args: DescribePackage) -> None:
        await self._packages.change_metadata(args.package, _described(args.described))

    async def delete(self, args: OnPackage) -> None:
        await self._packages.delete(args.package)


def _described(described: PackageDescription) -> dict[str, Any]:
    """Return the members of a record that people state. Raises InvalidField."""
    members = {
        "description": described.description,
        "contact": described.contact,
        "properties": described.properties,
    }
    size = sum(len(str(value)) for value in members.values())
    if size > METADATA_BYTES_MAX:
        raise InvalidField("metadata", f"must have at most {METADATA_BYTES_MAX} characters")
    return {name: value for name, value in members.items() if value}
