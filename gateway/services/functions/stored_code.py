"""The code of deployed functions, sources and sinks, as it is stored."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from engine.functions.packages.package_client import PackageClient
from engine.functions.ports import OnFunction
from engine.packages.package_name import PackageName
from engine.packages.package_operations import Via
from gateway.services.engine_link import Engine
from gateway.services.functions.deploying import package_of


class StoredCode(NamedTuple):
    """``file_name``: as it was uploaded; empty if that is not known. ``content``: None beyond the asked size."""

    file_name: str
    content: bytes | None


async def open_code(
    engine: Engine, of: OnFunction, *, transform: bool = False
) -> AsyncIterator[bytes]:
    """Return the pieces of the code. Raises NotFound for code that is built in, Refusals."""
    metadata = await engine.functions.metadata(of)
    name = package_of(metadata, transform=transform)
    return await package_client(engine, of, name).content(name)


async def stored_code(engine: Engine, of: OnFunction, bytes_max: int) -> StoredCode:
    """Return the code with its file's name. Raises NotFound for code that is built in, Refusals."""
    metadata = await engine.functions.metadata(of)
    name, file_name = package_of(metadata), metadata.packageLocation.originalFileName
    client = package_client(engine, of, name)
    described = await client.metadata(name)
    if described["size"] > bytes_max:
        return StoredCode(file_name, None)
    pieces = await client.content(name._replace(version=described["version"]))
    return StoredCode(file_name, b"".join([piece async for piece in pieces]))


def package_client(engine: Engine, of: OnFunction, name: PackageName) -> PackageClient:
    """Return the client of a package: of another kind or namespace it needs the right to packages."""
    is_own = (name.kind, name.namespace) == (of.component, of.namespace)
    via: Via = f"{of.component}s" if is_own else "packages"  # type: ignore[assignment]
    return PackageClient(engine.admin, principal=engine.principal, via=via)
