"""Resource groups: rates that several namespaces share; no broker needed.

``/admin/resourcegroups/<name>`` holds the rates; a namespace names its group in its policies. Every change is a
compare-and-set. Raises Refusal with Pulsar's text, and the store's own errors. Cancelled: a change may or may not have
happened.
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
"""Of a namespace's policies."""
RATES = {
    "publishRateInMsgs": (1 << 31) - 1,
    "publishRateInBytes": (1 << 63) - 1,
    "dispatchRateInMsgs": (1 << 31) - 1,
    "dispatchRateInBytes": (1 << 63) - 1,
}
"""Per second, each with the highest it may be. What is not above 0 is no limit."""
MISSING = "ResourceGroup does not exist"


async def list_resource_groups(store: MetadataStore) -> list[str]:
    """Names, sorted."""
    return await children(store, paths.RESOURCE_GROUPS)


async def get_resource_group(store: MetadataStore, name: str) -> Stored:
    """NotFound when missing."""
    return await read_node(store, _path(name), MISSING)


async def put_resource_group(
    store: MetadataStore, name: str, given: Mapping[str, Any] | None
) -> None:
    """Creates it without limits but those given, or changes only those. InvalidRequest for what is no rate."""
    if given is None:
        raise InvalidRequest("body: a JSON object with rates is needed")
    rates = {key: _rate(given, key) for key in RATES if given.get(key) is not None}

    def change(value: bytes) -> bytes:
        return encode_json({**dict.fromkeys(RATES, -1), **decode_json(value, name), **rates})

    await update(store, _path(name), change, create=lambda: change(b"{}"))


async def delete_resource_group(store: MetadataStore, name: str) -> None:
    """NotFound when missing, PreconditionFailed while a namespace is in it."""
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
    """The namespace is in this group from now on, or in none. PreconditionFailed without the group, NotFound without
    the namespace."""
    if group is not None and await store.exists(_path(group)) is None:
        raise PreconditionFailed(MISSING)

    try:
        await update_policies(store, namespace, lambda policies: put(policies, (KEY,), group))
    except NotFound as error:
        raise NotFound("Namespace policies does not exist") from error


def _path(name: str) -> str:
    return paths.resource_group(node_name("ResourceGroup", name))


def _rate(given: Mapping[str, Any], key: str) -> int:
    """Also quoted or with a fraction that is cut off, as Pulsar reads it."""
    value, high = given[key], RATES[key]
    try:
        found = int(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or not -high - 1 <= found <= high:
        raise InvalidField(key, f"must be a whole number of at most {high}")
    return found
