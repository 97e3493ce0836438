"""Resource groups, which are rates that several namespaces share; no function needs a broker.

``/admin/resourcegroups/<name>`` holds the rates; a namespace names its group in its policies. Every change is a
compare-and-set. Functions raise Refusal with Pulsar's text, and the store's errors. After cancellation a change may or
may not have happened.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import InvalidField, InvalidRequest, NotFound, PreconditionFailed
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import Stored, decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update
from engine.tenancy.checks import node_name
from engine.tenancy.listing import all_namespaces
from engine.tenancy.namespaces import update_policies
from engine.tenancy.nodes import children, find_node, read_node
from engine.tenancy.policies.policy import put

KEY = "resource_group_name"
"""Key of the group's name in a namespace's policies."""
RATES = {
    "publishRateInMsgs": (1 << 31) - 1,
    "publishRateInBytes": (1 << 63) - 1,
    "dispatchRateInMsgs": (1 << 31) - 1,
    "dispatchRateInBytes": (1 << 63) - 1,
}
"""Rates per second, each with its maximum. Values of 0 and below are no limit."""
MISSING = "ResourceGroup does not exist"


async def list_resource_groups(store: MetadataStore) -> list[str]:
    """Return the names of all resource groups, sorted."""
    return await children(store, paths.RESOURCE_GROUPS)


async def get_resource_group(store: MetadataStore, name: str) -> Stored:
    """Return the rates of a resource group. Raises NotFound when missing."""
    return await read_node(store, _path(name), MISSING)


async def put_resource_group(
    store: MetadataStore, name: str, given: Mapping[str, Any] | None
) -> None:
    """Create a resource group or change the given rates of one; a new group has no other limits.

    Raises InvalidRequest for an invalid rate.
    """
    if given is None:
        raise InvalidRequest("body: a JSON object with rates is needed")
    rates = {key: _rate(given, key) for key in RATES if given.get(key) is not None}

    def change(value: bytes) -> bytes:
        return encode_json({**dict.fromkeys(RATES, -1), **decode_json(value, name), **rates})

    await update(store, _path(name), change, create=lambda: change(b"{}"))


async def delete_resource_group(store: MetadataStore, name: str) -> None:
    """Delete a resource group. Raises NotFound when missing, PreconditionFailed while a namespace is in it."""
    await read_node(fresh(store, _path(name)), _path(name), MISSING)
    for namespace in await all_namespaces(store, anew=True):
        policies = await find_node(store, paths.namespace_policies(namespace))
        if policies is not None and policies.get(KEY) == name:
            raise PreconditionFailed("ResourceGroup is in use")
    try:
        await store.delete(_path(name))
    except NoNodeError as error:
        raise NotFound(MISSING) from error


async def join_resource_group(
    store: MetadataStore, namespace: NamespaceName, group: str | None
) -> None:
    """Set the resource group of a namespace; None removes it.

    Raises PreconditionFailed without the group, NotFound without the namespace.
    """
    if group is not None and await store.exists(_path(group)) is None:
        raise PreconditionFailed(MISSING)

    try:
        await update_policies(store, namespace, lambda policies: put(policies, (KEY,), group))
    except NotFound as error:
        raise NotFound("Namespace policies does not exist") from error


def _path(name: str) -> str:
    return paths.resource_group(node_name("ResourceGroup", name))


def _rate(given: Mapping[str, Any], key: str) -> int:
    """Return a rate, which may be quoted or have a fraction that is cut off, as in Pulsar."""
    value, high = given[key], RATES[key]
    try:
        rate = int(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        rate = None
    if rate is None or not -high - 1 <= rate <= high:
        raise InvalidField(key, f"must be a whole number of at most {high}")
    return rate
