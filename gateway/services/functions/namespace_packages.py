"""Functions and packages of a namespace that is deleted: what is in use keeps it, the rest goes with it."""

from contextlib import suppress

from engine.base.errors import Conflict, InvalidNameError, NotFound
from engine.base.names import NamespaceName, decode_name
from engine.functions.packages.package_client import PackageClient
from engine.functions.registered_workers import registered_workers
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.packages.package_name import PACKAGE_KINDS, PackageName
from engine.tenancy.nodes import children, delete_if_empty
from gateway.services.engine_link import Engine

NAMED_MAX = 5


async def refuse_in_use(engine: Engine, namespace: NamespaceName) -> None:
    """Raise Conflict for a namespace with functions, or with packages that functions of other namespaces run.

    Raises NotReady while no worker answers.
    """
    if engine.workers is None or not await registered_workers(engine.store):
        return
    users = []
    for metadata, _ in await engine.workers.everything():
        details = metadata.functionDetails
        places = (metadata.packageLocation, metadata.transformFunctionPackageLocation)
        used = any(_namespace_of(place.packagePath) == namespace for place in places)
        if used or f"{details.tenant}/{details.namespace}" == str(namespace):
            users.append(f"{details.tenant}/{details.namespace}/{details.name}")
    if users:
        more = f" and {len(users) - NAMED_MAX} more" if len(users) > NAMED_MAX else ""
        named = ", ".join(users[:NAMED_MAX])
        raise Conflict(
            f"Cannot delete non empty namespace: functions, sources and sinks need it ({named}{more})"
        )


def _namespace_of(url: str) -> NamespaceName | None:
    """Return the namespace of a package; None for code that is none."""
    try:
        return PackageName.parse(url).namespace
    except InvalidNameError:
        return None


async def remove_packages(engine: Engine, namespace: NamespaceName) -> None:
    """Delete all packages of a namespace. Safe to repeat. Raises Refusals, and the store's errors."""
    client = PackageClient(engine.admin)
    for kind in PACKAGE_KINDS:
        path = paths.packages(kind, str(namespace))
        for node in await children(fresh(engine.store, path), path):
            name = decode_name(node)
            for version in await client.versions(kind, namespace, name):
                with suppress(NotFound):
                    await client.delete(PackageName(kind, namespace, name, version))
        await delete_if_empty(engine.store, path)
        await delete_if_empty(engine.store, f"{paths.PACKAGES}/{kind}/{namespace.tenant}")
