"""Namespace isolation policies, which determine the brokers that may serve a namespace; no function needs a broker.

``/admin/clusters/<cluster>/namespaceIsolationPolicies`` holds all policies of a cluster by name. A namespace that a
policy names belongs on the policy's primary brokers, and also on its secondary brokers while fewer primary brokers than
``min_limit`` are available. All other namespaces belong on brokers that are primary in no policy. Brokers apply this
when bundles are placed, and release bundles that belong elsewhere (``engine.broker.control.assignment``,
``isolation_keeper``).

Patterns are regular expressions of whole names, restricted to the syntax that is matched in linear time
(``LinearRegex``). A pattern matches a broker's id or the host in it, because Pulsar displays the first and places by
the second. Every change is a compare-and-set. Functions raise Refusal with Pulsar's text, and the store's errors. After
cancellation a change may or may not have happened.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.base.errors import InvalidRequest, NotFound
from engine.base.regex.linear import LinearRegex
from engine.base.regex.syntax import UnsupportedRegexError
from engine.metadata import paths
from engine.metadata.cached import derived
from engine.metadata.records import Document, Stored, decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update
from engine.tenancy.checks import check_document_size, node_name, texts, typed
from engine.tenancy.nodes import change_below, find_node
from engine.tenancy.resources.failure_domains import require_cluster

MIN_AVAILABLE = "min_available"
UNLOAD_SCOPES = ("all_matching", "none", "changed")
PATTERN_MAX = 1_000
"""Maximum number of characters of a pattern."""
_INSTRUCTIONS_MAX = 2 * PATTERN_MAX
UNREADABLE = (
    InvalidRequest,
    *(ArithmeticError, LookupError, TypeError, ValueError),
)
"""Errors that an invalid policy of a caller causes."""


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """One isolation policy.

    ``stays``: bundles that other brokers serve already remain there when the policy is created or changed.
    """

    name: str
    namespaces: tuple[LinearRegex, ...]
    primary: tuple[LinearRegex, ...]
    secondary: tuple[LinearRegex, ...]
    min_limit: int
    stays: bool

    @classmethod
    def of(cls, name: str, stored: Mapping[str, Any]) -> "IsolationPolicy":
        """Return the policy of a stored record. Raises LookupError, ValueError or TypeError for an unreadable one."""
        compiled = {
            key: tuple(_compiled(pattern) for pattern in stored[key])
            for key in ("namespaces", "primary", "secondary")
        }
        limit = int(stored["auto_failover_policy"]["parameters"]["min_limit"])
        return cls(
            name=name, min_limit=limit, stays=stored.get("unload_scope") == "none", **compiled
        )

    def names(self, namespace: str) -> bool:
        return any(pattern.fullmatch(namespace) for pattern in self.namespaces)

    def primaries(self, brokers: Collection[str]) -> list[str]:
        return [broker for broker in brokers if _matches(self.primary, broker)]

    def places(self, brokers: Collection[str]) -> list[str]:
        """Return the ones of ``brokers`` that may serve the policy's namespaces."""
        primaries = self.primaries(brokers)
        if len(primaries) >= self.min_limit and primaries:
            return primaries
        return [
            broker for broker in brokers if broker in primaries or _matches(self.secondary, broker)
        ]


class IsolationPolicies:
    """All policies of a cluster, in stored order. Pure."""

    def __init__(self, policies: Sequence[IsolationPolicy] = ()) -> None:
        self._policies = policies

    def __bool__(self) -> bool:
        return bool(self._policies)

    def of(self, namespace: str) -> IsolationPolicy | None:
        """Return the first policy that names a namespace, None without one."""
        return next((policy for policy in self._policies if policy.names(namespace)), None)

    def places(self, namespace: str, brokers: Collection[str]) -> list[str]:
        """Return the ones of ``brokers`` that may serve a namespace."""
        policy = self.of(namespace)
        if policy is not None:
            return policy.places(brokers)
        return [broker for broker in brokers if not self._primary_of(broker)]

    def moves(self, namespace: str, broker: str, brokers: Collection[str]) -> bool:
        """Return whether ``broker`` must release its bundles of a namespace.

        It must when the namespace belongs on other brokers, one of them is available, and a policy that causes this
        does not let bundles stay.
        """
        places = self.places(namespace, brokers)
        if not places or broker in places:
            return False
        policy = self.of(namespace)
        causes = [policy] if policy is not None else self._primary_of(broker)
        return not all(cause.stays for cause in causes)

    def _primary_of(self, broker: str) -> list[IsolationPolicy]:
        return [policy for policy in self._policies if _matches(policy.primary, broker)]


def _compiled(pattern: str) -> LinearRegex:
    """Compile a pattern. Raises RegexSyntaxError, UnsupportedRegexError."""
    return LinearRegex(pattern, _INSTRUCTIONS_MAX)


def _matches(patterns: Sequence[LinearRegex], broker: str) -> bool:
    host = broker.rpartition(":")[0]
    return any(pattern.fullmatch(broker) or pattern.fullmatch(host) for pattern in patterns)


def decode_isolation(value: bytes, path: str) -> IsolationPolicies:
    """Decode the isolation policies of a cluster. Raises ValueError (or its subclass RecordFormatError)."""
    try:
        stored = decode_json(value, path)
        return IsolationPolicies(_policies(stored))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"isolation policies at {path} cannot be read: {error!r}") from error


async def isolation_of(store: MetadataStore, cluster: str) -> IsolationPolicies:
    """Return the isolation policies that brokers apply. Raises ValueError when they cannot be read."""
    try:
        return await derived(store, paths.isolation_policies(cluster), decode_isolation)
    except NoNodeError:
        return IsolationPolicies()


async def list_isolation_policies(store: MetadataStore, cluster: str) -> Stored:
    """Return the policies by name. Raises NotFound without the cluster, or when it never had a policy."""
    if await store.exists(paths.cluster(node_name("Cluster", cluster))) is None:
        raise NotFound(f"Cluster {cluster} does not exist.")
    return await _stored(store, cluster)


async def get_isolation_policy(store: MetadataStore, cluster: str, name: str) -> Stored:
    """Return a policy. Raises NotFound when missing, PreconditionFailed without the cluster."""
    await require_cluster(store, cluster)
    policy: Stored | None = (await _stored(store, cluster)).get(name)
    if policy is None:
        raise NotFound(f"Cannot find NamespaceIsolationPolicy {name} for cluster {cluster}")
    return policy


async def isolation_of_brokers(
    store: MetadataStore, cluster: str, brokers: Sequence[str]
) -> list[Document]:
    """Return BrokerNamespaceIsolationData of each broker.

    Raises NotFound when the cluster never had a policy, PreconditionFailed without the cluster.
    """
    await require_cluster(store, cluster)
    policies = _policies(await _stored(store, cluster))
    return [_broker_data(broker, policies) for broker in brokers]


def _policies(stored: Mapping[str, Any]) -> list[IsolationPolicy]:
    return [IsolationPolicy.of(name, record) for name, record in stored.items()]


def _broker_data(broker: str, policies: Sequence[IsolationPolicy]) -> Document:
    """Return BrokerNamespaceIsolationData; ``policyName`` is the last policy that names the broker, as in Pulsar."""
    naming = [
        policy for policy in policies if _matches((*policy.primary, *policy.secondary), broker)
    ]
    return {
        "brokerName": broker,
        **({"policyName": naming[-1].name} if naming else {}),
        "namespaceRegex": [regex.pattern for policy in naming for regex in policy.namespaces],
        "primary": any(_matches(policy.primary, broker) for policy in naming),
    }


async def set_isolation_policy(
    store: MetadataStore, cluster: str, name: str, given: Mapping[str, Any] | None
) -> None:
    """Create or replace a policy. Raises InvalidRequest for invalid data, PreconditionFailed without the cluster."""
    await require_cluster(store, cluster)
    data = isolation_data(name, given or {})

    def change(value: bytes) -> bytes:
        stored = decode_json(value, "isolation policies")
        stored[name] = data
        return check_document_size("isolation policies", encode_json(dict(sorted(stored.items()))))

    parent = paths.cluster(cluster)
    node = paths.isolation_policies(cluster).removeprefix(f"{parent}/")
    await change_below(store, parent, node, change, f"Cluster {cluster} does not exist.")


async def delete_isolation_policy(store: MetadataStore, cluster: str, name: str) -> None:
    """Delete a policy; a missing one is no error, as in Pulsar. Raises PreconditionFailed without the cluster."""
    await require_cluster(store, cluster)

    def change(value: bytes) -> bytes | None:
        stored = decode_json(value, "isolation policies")
        return encode_json(stored) if stored.pop(name, None) is not None else None

    with suppress(NoNodeError):
        await update(store, paths.isolation_policies(cluster), change)


def isolation_data(name: str, given: Mapping[str, Any]) -> Document:
    """Return the stored form of a caller's policy. Raises InvalidRequest."""
    failover = given.get("auto_failover_policy")
    parameters = failover.get("parameters") if isinstance(failover, Mapping) else None
    kind = failover.get("policy_type") if isinstance(failover, Mapping) else None
    scope = given.get("unload_scope")
    shown = {
        **{key: given.get(key) for key in ("namespaces", "primary", "secondary")},
        "auto_failover_policy": None
        if not isinstance(failover, Mapping)
        else {
            "parameters": dict(sorted((parameters or {}).items())),
            "policy_type": kind if kind == MIN_AVAILABLE else None,
        },
        "unload_scope": scope if scope in UNLOAD_SCOPES else None,
    }
    refusal = f"Invalid format of input policy data. policy: {name}; data: {_pretty(shown)}"
    try:
        for key in ("namespaces", "primary", "secondary"):
            for pattern in texts(key, given.get(key)):
                if len(pattern) <= PATTERN_MAX:
                    _compiled(pattern)
        typed("auto_failover_policy", failover, dict, "a JSON object")
        typed("parameters", parameters, dict, "a JSON object")
        numbers = {key: str(int(parameters[key])) for key in ("min_limit", "usage_threshold")}  # type: ignore[index]
    except UnsupportedRegexError as error:
        raise InvalidRequest(f"A pattern cannot be used: {error}. {refusal}") from error
    except UNREADABLE as error:
        raise InvalidRequest(refusal) from error
    for key in ("namespaces", "primary", "secondary"):
        if any(len(pattern) > PATTERN_MAX for pattern in given[key]):
            raise InvalidRequest(f"{key}: a pattern has at most {PATTERN_MAX} characters")
    if not given["namespaces"] or not given["primary"] or kind != MIN_AVAILABLE:
        raise InvalidRequest(refusal)
    return {
        **{key: texts(key, given[key]) for key in ("namespaces", "primary", "secondary")},
        "auto_failover_policy": {"parameters": numbers, "policy_type": kind},
        **({"unload_scope": scope} if scope in UNLOAD_SCOPES else {}),
    }


def _pretty(value: Any, indent: str = "") -> str:
    """Return indented JSON in the form that Pulsar's refusals contain."""
    if isinstance(value, dict):
        if not value:
            return "{ }"
        inner = indent + "  "
        lines = [
            f"{inner}{json.dumps(key)} : {_pretty(item, inner)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[ {', '.join(_pretty(item, indent) for item in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)


async def _stored(store: MetadataStore, cluster: str) -> Stored:
    policies = await find_node(store, paths.isolation_policies(cluster))
    if policies is None:
        raise NotFound(f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
    return policies
