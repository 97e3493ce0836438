"""Callers of the permission matrices, what each need of Apache means for them, and the shipped judge over policies."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from engine.auth.judge import Judge
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import encode_json
from engine.metadata.store import MetadataStore
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import create_judge
from tests.support.access.callers import PROXY, SUPERUSER, by_token

CLUSTER = "c"
STRANGER, PRODUCER, CONSUMER, OTHER, OWN = "stranger", "producer", "consumer", "other", "own"
ANONYMOUS = ""
CALLERS = (ANONYMOUS, STRANGER, PRODUCER, CONSUMER, OTHER, OWN, SUPERUSER)
ADMINS = {OWN, SUPERUSER}
MAY: dict[str, set[str]] = {
    "public": set(CALLERS),
    "authenticated only": set(CALLERS) - {ANONYMOUS},
    "superuser": {SUPERUSER},
    "tenant admin": ADMINS,
    "produce": {PRODUCER, *ADMINS},
    "consume": {CONSUMER, *ADMINS},
    "produce or consume": {PRODUCER, CONSUMER, *ADMINS},
    "consume (namespace)": {CONSUMER, *ADMINS},
    "produce or consume (namespace)": {PRODUCER, CONSUMER, *ADMINS},
    **dict.fromkeys(("packages", "functions", "sources", "sinks"), ADMINS),
}
"""Callers with what Apache calls a need; the producer and the consumer have a grant on the namespace."""


async def policies(
    store: MetadataStore, grants: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> None:
    """Store the tenants ``t`` of the own admin and ``o`` of the other, with namespaces of both forms. ``grants``:
    further actions of roles on those of ``t``."""
    for tenant, admin in (("t", OWN), ("o", OTHER)):
        record = {"adminRoles": [admin], "allowedClusters": [CLUSTER]}
        await store.create(paths.tenant(tenant), encode_json(record), make_parents=True)
        granted = {PRODUCER: ["produce"], CONSUMER: ["consume"], **grants} if tenant == "t" else {}
        record = {"auth_policies": {"namespace_auth": granted}}
        for name in (f"{tenant}/n", f"{tenant}/{CLUSTER}/n"):
            path = paths.namespace_policies(name)
            await store.create(path, encode_json(record), make_parents=True)


async def stored_judge(grants: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Judge:
    """Return the shipped judge over these policies, in memory."""
    store = MemoryServer().session()
    await policies(store, grants)
    settings = by_token(authorization_enabled=True, super_user_roles=f"{SUPERUSER},{PROXY}")
    return create_judge(settings, AccessRecords(store), CLUSTER)
