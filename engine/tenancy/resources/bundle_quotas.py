"""Resource quotas of bundles: the load that load balancers should expect. Our brokers do not use them.

They are stored at ``/loadbalance/resource-quota/<namespace>/<bundle>``, and at ``…/default`` for bundles without one.
No function needs a broker. Functions raise Refusal and the store's errors. After cancellation a change may or may not
have happened.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import InvalidField, InvalidRequest, NotFound
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.records import Document, Stored, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update
from engine.tenancy.nodes import find_node

DEFAULT: Document = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100_000.0,
    "bandwidthOut": 300_000.0,
    "memory": 80.0,
    "dynamic": True,
}
"""Default quota: messages and bytes per second, memory in MB, and whether load balancers may change it."""


async def get_default_quota(store: MetadataStore) -> Stored:
    """Return the quota of bundles that have none of their own."""
    return await find_node(store, paths.DEFAULT_BUNDLE_QUOTA) or DEFAULT


async def set_default_quota(store: MetadataStore, given: Mapping[str, Any] | None) -> None:
    """Store the default quota. Raises InvalidRequest for an invalid one."""
    await _put(store, paths.DEFAULT_BUNDLE_QUOTA, given)


async def get_quota(store: MetadataStore, namespace: NamespaceName, bundle: str) -> Stored:
    """Return the quota of a bundle or the default; ``bundle`` must be an existing range."""
    quota = await find_node(store, paths.bundle_quota(str(namespace), bundle))
    return quota or await get_default_quota(store)


async def set_quota(
    store: MetadataStore, namespace: NamespaceName, bundle: str, given: Mapping[str, Any] | None
) -> None:
    """Store the quota of a bundle. Raises InvalidRequest for an invalid one."""
    await _put(store, paths.bundle_quota(str(namespace), bundle), given)


async def delete_quota(store: MetadataStore, namespace: NamespaceName, bundle: str) -> None:
    """Remove the quota of a bundle, which then has the default. Raises NotFound when it has none."""
    path = paths.bundle_quota(str(namespace), bundle)
    try:
        await store.delete(path)
    except NoNodeError as error:
        raise NotFound(f"path {path} not found.") from error


async def _put(store: MetadataStore, path: str, given: Mapping[str, Any] | None) -> None:
    value = encode_json(_quota(given))
    await update(store, path, lambda _: value, create=lambda: value)


def _quota(given: Mapping[str, Any] | None) -> Document:
    """Return the stored form of a quota; rates that are not given are 0, as in Pulsar. Raises InvalidRequest."""
    if given is None:
        raise InvalidRequest("body: a resource quota is needed")
    quota: Document = {key: _number(given, key) for key in DEFAULT if key != "dynamic"}
    dynamic = given.get("dynamic", True)
    if not isinstance(dynamic, bool):
        raise InvalidField("dynamic", "must be true or false")
    return {**quota, "dynamic": dynamic}


def _number(given: Mapping[str, Any], key: str) -> float:
    value = given.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidField(key, "must be a number")
    try:
        return float(value)
    except OverflowError:
        raise InvalidField(key, "is too large a number") from None
