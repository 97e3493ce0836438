"""Paths of the metadata tree, in the layout of Apache Pulsar and BookKeeper (read from 4.0.8). Pure.

Arguments are plain names; where Apache Pulsar encodes a name in a path, the function here does so.
"""

from engine.base.names import PARTITION_SUFFIX, encode_name

# Instance and cluster policies
CLUSTERS = "/admin/clusters"
POLICIES = "/admin/policies"
LOCAL_POLICIES = "/admin/local-policies"
PARTITIONED_TOPICS = "/admin/partitioned-topics"
RESOURCE_GROUPS = "/admin/resourcegroups"
FLAGS = "/admin/flags"
CONFIGURATION = "/admin/configuration"
REVOKED_TOKENS = "/magnetar/revoked-tokens"
"""Below it, one node for each revoked token; a tree of Magnetar's own."""

PACKAGES = "/magnetar/packages"
"""Below it, one node for each version of a package of functions, sources or sinks; a tree of Magnetar's own."""
PACKAGE_UPLOADS = "/magnetar/package-uploads"
"""Below it, one node for each package that is being stored or deleted; a tree of Magnetar's own."""

# Topics, schemas, ownership
MANAGED_LEDGERS = "/managed-ledgers"
SCHEMAS = "/schemas"
NAMESPACE = "/namespace"
LOADBALANCE_BROKERS = "/loadbalance/brokers"
LOADBALANCE_LEADER = "/loadbalance/leader"
LOADBALANCE_MOVES = "/loadbalance/moves"
"""The last moves of bundles that a leader has asked for; a node of Magnetar's own."""
LOADBALANCE_DRAINING = "/loadbalance/draining"
"""The brokers that operators drain; a node of Magnetar's own."""
LOADBALANCE_CHANGES = "/loadbalance/changes"
"""The last moves and splits of bundles that no leader has asked for; a node of Magnetar's own."""
BUNDLE_QUOTAS = "/loadbalance/resource-quota"
DEFAULT_BUNDLE_QUOTA = "/loadbalance/resource-quota/default"
GROUP_USAGE = "/loadbalance/resource-group-usage"
PRODUCER_NAME_COUNTER = "/counters/producer-name/-"
BOOKIE_RACKS = "/bookies"

# BookKeeper
LEDGERS = "/ledgers"
LAYOUT = "/ledgers/LAYOUT"
INSTANCE_ID = "/ledgers/INSTANCEID"
AVAILABLE = "/ledgers/available"
READ_ONLY = "/ledgers/available/readonly"
COOKIES = "/ledgers/cookies"
ID_GENERATOR = "/ledgers/idgen"
ID_GENERATOR_PREFIX = "/ledgers/idgen/ID-"
LONG_ID_GENERATOR = "/ledgers/idgen-long"
DISABLE_HEALTH_CHECK = "/ledgers/disableHealthCheck"
UNDERREPLICATION = "/ledgers/underreplication"
UNDERREPLICATION_LAYOUT = "/ledgers/underreplication/LAYOUT"
MARKED_LEDGERS = "/ledgers/underreplication/ledgers"
REPAIR_LOCKS = "/ledgers/underreplication/locks"
REPAIR_DISABLED = "/ledgers/underreplication/disable"
LOST_BOOKIE_DELAY = "/ledgers/underreplication/lostBookieRecoveryDelay"
AUDITOR_VOTES = "/ledgers/underreplication/auditorelection"
AUDITOR_LEADER = "/ledgers/underreplication/leader"
CHECKED_LEDGERS = "/ledgers/underreplication/checkallledgersctime"
CHECKED_PLACEMENT = "/ledgers/underreplication/placementpolicycheckctime"
CHECKED_REPLICAS = "/ledgers/underreplication/replicascheckctime"
KNOWN_COOKIES = "/magnetar/known-cookies"
"""The creations of bookies' cookies that an auditor has seen; a node of Magnetar's own."""
DECOMMISSIONS = "/magnetar/decommissions"
"""The bookies that the auditor takes out, by their ids; nodes of Magnetar's own."""

# Functions: trees of Magnetar's own
FUNCTION_WORKERS = "/magnetar/functions/workers"
FUNCTION_LEADER = "/magnetar/functions/leader"
FUNCTION_DRAINS = "/magnetar/functions/drains"
FUNCTION_INSTANCES = "/magnetar/functions/instances"

LONG_LEDGER_ID = (1 << 31) - 1
"""The smallest ledger id that is stored in the five-level layout."""


def cluster(name: str) -> str:
    return f"{CLUSTERS}/{name}"


def cluster_policies(name: str) -> str:
    return f"{CLUSTERS}/{name}/policies"


def failure_domains(cluster: str) -> str:
    return f"{CLUSTERS}/{cluster}/failureDomain"


def failure_domain(cluster: str, name: str) -> str:
    return f"{failure_domains(cluster)}/{name}"


def isolation_policies(cluster: str) -> str:
    return f"{CLUSTERS}/{cluster}/namespaceIsolationPolicies"


def resource_group(name: str) -> str:
    return f"{RESOURCE_GROUPS}/{name}"


def group_usage(group: str, broker_id: str) -> str:
    """Return the path of a broker's usage of a resource group."""
    return f"{GROUP_USAGE}/{group}/{broker_id}"


def bundle_quota(namespace: str, bundle_range: str) -> str:
    """Return the path of a bundle's quota; for ``bundle_range`` see ``bundle_owner``."""
    return f"{BUNDLE_QUOTAS}/{namespace}/{bundle_range}"


def revoked_token(token_id: str) -> str:
    """Return the path of a revoked token; ``token_id`` is a name of a node (``jws.TOKEN_ID``)."""
    return f"{REVOKED_TOKENS}/{token_id}"


def tenant(name: str) -> str:
    return f"{POLICIES}/{name}"


def namespace_policies(namespace: str) -> str:
    """Return the path of a namespace's policies; ``namespace`` is ``tenant/name``."""
    return f"{POLICIES}/{namespace}"


def local_policies(namespace: str) -> str:
    return f"{LOCAL_POLICIES}/{namespace}"


def partitioned_topics(namespace: str, domain: str = "persistent") -> str:
    return f"{PARTITIONED_TOPICS}/{namespace}/{domain}"


def partitioned_topic(namespace: str, topic: str, domain: str = "persistent") -> str:
    """Return the path of a partitioned topic; ``topic`` is the decoded local name without ``-partition-N``."""
    return f"{PARTITIONED_TOPICS}/{namespace}/{domain}/{encode_name(topic)}"


def managed_ledgers(namespace: str, domain: str = "persistent") -> str:
    """Return the parent of all managed ledgers of a namespace."""
    return f"{MANAGED_LEDGERS}/{namespace}/{domain}"


def managed_ledger(name: str) -> str:
    """Return the path of a managed ledger; ``name`` is ``TopicName.managed_ledger_name``."""
    return f"{MANAGED_LEDGERS}/{name}"


def cursor(managed_ledger_name: str, cursor_name: str) -> str:
    """Return the path of a cursor; ``cursor_name`` is the decoded subscription name."""
    return f"{MANAGED_LEDGERS}/{managed_ledger_name}/{encode_name(cursor_name)}"


def schema(schema_name: str) -> str:
    """Return the path of a schema; ``schema_name`` is ``tenant/ns/encoded-topic``."""
    return f"{SCHEMAS}/{schema_name}"


def packages(kind: str, namespace: str) -> str:
    return f"{PACKAGES}/{kind}/{namespace}"


def package(kind: str, namespace: str, name: str) -> str:
    return f"{packages(kind, namespace)}/{encode_name(name)}"


def package_version(kind: str, namespace: str, name: str, version: str) -> str:
    return f"{package(kind, namespace, name)}/{encode_name(version)}"


def package_upload(upload: str) -> str:
    return f"{PACKAGE_UPLOADS}/{upload}"


def bundle_owner(namespace: str, bundle_range: str) -> str:
    """Return the path of a bundle's ownership record; ``bundle_range`` is for example ``0x00000000_0x40000000``."""
    return f"{NAMESPACE}/{namespace}/{bundle_range}"


def broker(broker_id: str) -> str:
    """Return the path of a broker's registration and load report; ``broker_id`` is ``host:http-port``."""
    return f"{LOADBALANCE_BROKERS}/{broker_id}"


def available_bookie(bookie_id: str) -> str:
    return f"{AVAILABLE}/{bookie_id}"


def read_only_bookie(bookie_id: str) -> str:
    return f"{READ_ONLY}/{bookie_id}"


def cookie(bookie_id: str) -> str:
    return f"{COOKIES}/{bookie_id}"


def decommission(bookie_id: str) -> str:
    return f"{DECOMMISSIONS}/{bookie_id}"


def ledger(ledger_id: int) -> str:
    """Return the path of a ledger's metadata in the default hierarchical layout.

    Its levels have 2-4-4 digits for ids below 2**31 - 1, else 3-4-4-4-4. Raises ValueError for a negative id.
    """
    if ledger_id < 0:
        raise ValueError(f"ledger id {ledger_id} is negative")
    if ledger_id < LONG_LEDGER_ID:
        digits = f"{ledger_id:010d}"
        return f"{LEDGERS}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{LEDGERS}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_id(path: str) -> int | None:
    """Return the ledger id of a metadata path, None when the path is not a ledger's."""
    parts = path.removeprefix(LEDGERS + "/").split("/")
    if not parts[-1].startswith("L"):
        return None
    digits = "".join(parts[:-1]) + parts[-1][1:]
    shapes = ([2, 4, 5], [3, 4, 4, 4, 5])
    if [len(part) for part in parts] not in shapes or not digits.isdigit():
        return None
    return int(digits)


def marked_ledger(ledger_id: int) -> str:
    """Return the path of the mark of an under-replicated ledger."""
    digits = f"{ledger_id:016x}"
    levels = "/".join(digits[i : i + 4] for i in range(0, 16, 4))
    return f"{MARKED_LEDGERS}/{levels}/urL{ledger_id:010d}"


def repair_lock(ledger_id: int) -> str:
    return f"{REPAIR_LOCKS}/urL{ledger_id:010d}"


def long_id_directory(high: int) -> str:
    """Return the directory that generates long ledger ids with ``high`` as their high 32 bits."""
    return f"{LONG_ID_GENERATOR}/HOB-{high:010d}"


_TOPIC_LEVELS = {
    POLICIES: -1,
    LOCAL_POLICIES: -1,
    NAMESPACE: -1,
    PARTITIONED_TOPICS: 3,
    MANAGED_LEDGERS: 3,
    SCHEMAS: 2,
}
"""Level of topics in each tree whose first two levels are a namespace; -1 in trees without topics."""
_BROKER_TREES = (LOCAL_POLICIES, NAMESPACE, PARTITIONED_TOPICS, MANAGED_LEDGERS, SCHEMAS)
"""Trees in which brokers create nodes."""


def whose(path: str) -> tuple[str, str]:
    """Return the namespace and the topic that a path belongs to, empty texts for none.

    The namespace is ``tenant/namespace``, for a legacy name its first two parts. The topic is the encoded name that a
    partitioned topic and its partitions have in common.
    """
    depth = 3 if path.startswith("/admin/") else 2
    parts = path.split("/")
    level = _TOPIC_LEVELS.get("/".join(parts[:depth]))
    below = parts[depth:]
    if level is None or len(below) < 2:
        return "", ""
    topic = below[level].partition(PARTITION_SUFFIX)[0] if 0 < level < len(below) else ""
    return f"{below[0]}/{below[1]}", topic


def above_namespace(namespace: str) -> list[tuple[str, str]]:
    """Return the ancestors of the nodes that brokers create for a namespace, each with the child of it that is another
    one or the namespace's own. ``namespace``: see ``whose``."""
    tenant, _, local = namespace.partition("/")
    return [
        pair for tree in _BROKER_TREES for pair in ((tree, tenant), (f"{tree}/{tenant}", local))
    ]


def function_worker(worker: str) -> str:
    return f"{FUNCTION_WORKERS}/{encode_name(worker)}"


def function_drain(worker: str) -> str:
    return f"{FUNCTION_DRAINS}/{encode_name(worker)}"


def function_instances(name: str) -> str:
    """Return the path of the leases of a function's instances; ``name`` is its full name."""
    return f"{FUNCTION_INSTANCES}/{encode_name(name)}"


def function_instance(name: str, instance: int) -> str:
    return f"{function_instances(name)}/{instance}"
