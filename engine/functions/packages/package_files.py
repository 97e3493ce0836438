"""Code of functions as files on a worker, and the removal of packages that were uploaded with a function."""

import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.base.disk.files import Disk, Lane
from engine.base.errors import InvalidNameError, MagnetarError, NotFound
from engine.base.names import NamespaceName
from engine.functions.definitions.functions_pb2 import FunctionMetaData
from engine.functions.definitions.records import FunctionName, component_of
from engine.functions.packages.package_client import PackageClient
from engine.packages.package_name import PackageName

log = logging.getLogger(__name__)

UPLOADED_WITH = "uploadedWith"
"""Property of a package that was uploaded with a function, source or sink: its full name."""


class UnusablePackageUrlError(MagnetarError):
    """A URL of code that is no package's; other URLs are fetched once, when a function is created."""


class OversizedPackageError(MagnetarError):
    """A package with more bytes than a worker takes."""


class PackageFetcher:
    """Writes packages to files. ``bytes_max``: of one package."""

    def __init__(self, packages: PackageClient, disk: Disk, lane: Lane, bytes_max: int) -> None:
        self._packages = packages
        self._disk = disk
        self._lane = lane
        self._bytes_max = bytes_max

    async def __call__(self, url: str, target: Path) -> None:
        """Write the content of the package ``url`` to the file ``target``, whose folder exists.

        Raises NotFound, UnusablePackageUrlError, OversizedPackageError, NotReady, Failed for damaged content, OSError.
        A failure may leave a part of the file.
        """
        try:
            name = PackageName.parse(url)
        except InvalidNameError as error:
            raise UnusablePackageUrlError(f"{url[:200]} is no package") from error
        await self._write(name, await self._packages.content(name), target)

    async def _write(self, name: PackageName, pieces: AsyncIterator[bytes], target: Path) -> None:
        file = await self._lane.run(partial(self._disk.open, str(target), create=True))
        try:
            offset = 0
            async for piece in pieces:
                if offset + len(piece) > self._bytes_max:
                    raise OversizedPackageError(
                        f"Package '{name}' has more than {self._bytes_max} bytes"
                    )
                await self._lane.run(partial(file.pwritev, [piece], offset))
                offset += len(piece)
        finally:
            await self._lane.run(file.close)


class UploadedPackages:
    """The packages that are uploaded with functions: a version of the package of the function's own name for each."""

    def __init__(self, packages: PackageClient) -> None:
        self._packages = packages

    async def next_version(self, component: str, name: FunctionName) -> PackageName:
        """Return the name of the next upload."""
        namespace = NamespaceName.parse(f"{name.tenant}/{name.namespace}")
        versions = await self._packages.versions(component, namespace, name.name)
        numbers = [int(version) for version in versions if version.isdecimal()]
        return PackageName(component, namespace, name.name, str(max(numbers, default=-1) + 1))

    async def remove(self, component: str, name: FunctionName, *, but: str = "") -> None:
        """Delete the packages that were uploaded with a function, ``but`` the one of that URL. May be repeated."""
        namespace = NamespaceName.parse(f"{name.tenant}/{name.namespace}")
        for version in await self._packages.versions(component, namespace, name.name):
            package = PackageName(component, namespace, name.name, version)
            if str(package) == but:
                continue
            with suppress(NotFound):  # deleted meanwhile
                described = await self._packages.metadata(package)
                if described.get("properties", {}).get(UPLOADED_WITH) == str(name):
                    await self._packages.delete(package)
                    log.info("package %s deleted with its function", package)

    async def remove_of(self, metadata: FunctionMetaData) -> None:
        """Delete all packages that were uploaded with a deleted function. May be repeated."""
        details = metadata.functionDetails
        await self.remove(component_of(details), FunctionName.of(details))
