"""Namespace isolation policies: which brokers may serve which namespaces; no broker needed.

``/admin/clusters/<cluster>/namespaceIsolationPolicies`` holds all of a cluster by name. A namespace that a policy names
belongs on its primary brokers, and on its secondary ones too while fewer primaries than ``min_limit`` are there; all
other namespaces belong on brokers that are primary of no policy. Brokers act by it when bundles are placed, and give up
what belongs elsewhere (``engine.broker.control.assignment``, ``isolation_keeper``).

Patterns are regular expressions of whole names, of the part that is matched in linear time (``LinearRegex``). A broker
is named by its id or by the host in it: Pulsar tells the first and places by the second. Every change is a
compare-and-set. Raises Refusal with Pulsar's text, and the store's own errors. Cancelled: a change may or may not have
happened.
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
"""Characters."""
_INSTRUCTIONS_MAX = 2 * PATTERN_MAX
UNREADABLE = (
    InvalidRequest,
    *(ArithmeticError, LookupError, TypeError, ValueError),
)
"""What is raised where a caller's policy is none."""


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """``stays``: what is served elsewhere already is left there when the policy comes or changes."""

    name: str
    namespaces: tuple[LinearRegex, ...]
    primary: tuple[LinearRegex, ...]
    secondary: tuple[LinearRegex, ...]
    min_limit: int
    stays: bool

    @classmethod
    def of(cls, name: str, stored: Mapping[str, Any]) -> "IsolationPolicy":
        """Raises ValueError or TypeError when what is stored cannot be read."""
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
        """Of ``brokers`` those that may serve its namespaces."""
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
        """The first that names it."""
        return next((one for one in self._policies if one.names(namespace)), None)

    def places(self, namespace: str, brokers: Collection[str]) -> list[str]:
        """Of ``brokers`` those that may serve it."""
        policy = self.of(namespace)
        if policy is not None:
            return policy.places(brokers)
        return [broker for broker in brokers if not self._primary_of(broker)]

    def moves(self, namespace: str, broker: str, brokers: Collection[str]) -> bool:
        """Whether ``broker`` is to give up what it has of it: it belongs on others, they are there, and nobody said
        that it stays."""
        places = self.places(namespace, brokers)
        if not places or broker in places:
            return False
        policy = self.of(namespace)
        causes = [policy] if policy is not None else self._primary_of(broker)
        return not all(cause.stays for cause in causes)

    def _primary_of(self, broker: str) -> list[IsolationPolicy]:
        return [policy for policy in self._policies if _matches(policy.primary, broker)]


def _compiled(pattern: str) -> LinearRegex:
    """Raises RegexSyntaxError, UnsupportedRegexError."""
    return LinearRegex(pattern, _INSTRUCTIONS_MAX)


def _matches(patterns: Sequence[LinearRegex], broker: str) -> bool:
    host = broker.rpartition(":")[0]
    return any(each.fullmatch(broker) or each.fullmatch(host) for each in patterns)


def decode_isolation(value: bytes, path: str) -> IsolationPolicies:
    """Raises ValueError, RecordFormatError among them, when what is stored cannot be read."""
    try:
        stored = decode_json(value, path)
        return IsolationPolicies([IsolationPolicy.of(name, one) for name, one in stored.items()])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"isolation policies at {path} cannot be read: {error!r}") from error


async def isolation_of(store: MetadataStore, cluster: str) -> IsolationPolicies:
    """What brokers act by. Raises ValueError when what is stored cannot be read."""
    try:
        return await derived(store, paths.isolation_policies(cluster), decode_isolation)
    except NoNodeError:
        return IsolationPolicies()


async def list_isolation_policies(store: MetadataStore, cluster: str) -> Stored:
    """By name; NotFound without the cluster, or while it never had one."""
    if await store.exists(paths.cluster(node_name("Cluster", cluster))) is None:
        raise NotFound(f"Cluster {cluster} does not exist.")
    return await _stored(store, cluster)


async def get_isolation_policy(store: MetadataStore, cluster: str, name: str) -> Stored:
    """NotFound when missing, PreconditionFailed without the cluster."""
    await require_cluster(store, cluster)
    found: Stored | None = (await _stored(store, cluster)).get(name)
    if found is None:
        raise NotFound(f"Cannot find NamespaceIsolationPolicy {name} for cluster {cluster}")
    return found


async def isolation_of_brokers(
    store: MetadataStore, cluster: str, brokers: Sequence[str]
) -> list[Document]:
    """BrokerNamespaceIsolationData of each. NotFound while the cluster never had a policy, PreconditionFailed without
    the cluster."""
    await require_cluster(store, cluster)
    stored = await _stored(store, cluster)
    policies = [IsolationPolicy.of(name, one) for name, one in stored.items()]
    return [_of_broker(broker, policies) for broker in brokers]


def _of_broker(broker: str, policies: Sequence[IsolationPolicy]) -> Document:
    """``policyName`` is the last that names it, as in Pulsar."""
    naming = [one for one in policies if _matches((*one.primary, *one.secondary), broker)]
    return {
        "brokerName": broker,
        **({"policyName": naming[-1].name} if naming else {}),
        "namespaceRegex": [each.pattern for one in naming for each in one.namespaces],
        "primary": any(_matches(one.primary, broker) for one in naming),
    }


async def set_isolation_policy(
    store: MetadataStore, cluster: str, name: str, given: Mapping[str, Any] | None
) -> None:
    """Creates or replaces it. InvalidRequest for one that cannot act, PreconditionFailed without the cluster."""
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
    """Fine when it is missing, as in Pulsar. PreconditionFailed without the cluster."""
    await require_cluster(store, cluster)

    def change(value: bytes) -> bytes | None:
        stored = decode_json(value, "isolation policies")
        return encode_json(stored) if stored.pop(name, None) is not None else None

    with suppress(NoNodeError):
        await update(store, paths.isolation_policies(cluster), change)


def isolation_data(name: str, given: Mapping[str, Any]) -> Document:
    """What is stored of a caller's policy. Raises InvalidRequest."""
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
    """JSON in lines, as Pulsar shows what it refuses."""
    if isinstance(value, dict):
        if not value:
            return "{ }"
        inner = indent + "  "
        lines = [f"{inner}{json.dumps(key)} : {_pretty(one, inner)}" for key, one in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[ {', '.join(_pretty(one, indent) for one in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)


async def _stored(store: MetadataStore, cluster: str) -> Stored:
    found = await find_node(store, paths.isolation_policies(cluster))
    if found is None:
        raise _none(cluster)
    return found


def _none(cluster: str) -> NotFound:
    return NotFound(f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
