"""Every path of the metadata tree, as Apache Pulsar and BookKeeper lay it out (seen on 4.0.8). Pure.

Arguments are plain names; where Apache encodes a name in a path, the function here does so.
"""

from engine.base.names import PARTITION_SUFFIX, encode_name

# Instance and cluster policies
CLUSTERS = "/admin/clusters"
POLICIES = "/admin/policies"
LOCAL_POLICIES = "/admin/local-policies"
PARTITIONED_TOPICS = "/admin/partitioned-topics"
RESOURCE_GROUPS = "/admin/resourcegroups"
CONFIGURATION = "/admin/configuration"

# Topics, schemas, ownership
MANAGED_LEDGERS = "/managed-ledgers"
SCHEMAS = "/schemas"
NAMESPACE = "/namespace"
LOADBALANCE_BROKERS = "/loadbalance/brokers"
LOADBALANCE_LEADER = "/loadbalance/leader"
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

LONG_LEDGER_ID = (1 << 31) - 1
"""First ledger id of the five-level layout."""


def cluster(name: str) -> str:
    return f"{CLUSTERS}/{name}"


def failure_domains(cluster: str) -> str:
    return f"{CLUSTERS}/{cluster}/failureDomain"


def failure_domain(cluster: str, name: str) -> str:
    return f"{failure_domains(cluster)}/{name}"


def isolation_policies(cluster: str) -> str:
    return f"{CLUSTERS}/{cluster}/namespaceIsolationPolicies"


def resource_group(name: str) -> str:
    return f"{RESOURCE_GROUPS}/{name}"


def group_usage(group: str, broker_id: str) -> str:
    """What a broker uses of a resource group."""
    return f"{GROUP_USAGE}/{group}/{broker_id}"


def bundle_quota(namespace: str, bundle_range: str) -> str:
    """``bundle_range`` as of ``bundle_owner``."""
    return f"{BUNDLE_QUOTAS}/{namespace}/{bundle_range}"


def tenant(name: str) -> str:
    return f"{POLICIES}/{name}"


def namespace_policies(namespace: str) -> str:
    """``namespace`` is ``tenant/name``."""
    return f"{POLICIES}/{namespace}"


def local_policies(namespace: str) -> str:
    return f"{LOCAL_POLICIES}/{namespace}"


def partitioned_topics(namespace: str, domain: str = "persistent") -> str:
    return f"{PARTITIONED_TOPICS}/{namespace}/{domain}"


def partitioned_topic(namespace: str, topic: str, domain: str = "persistent") -> str:
    """``topic`` is the decoded local name without ``-partition-N``."""
    return f"{PARTITIONED_TOPICS}/{namespace}/{domain}/{encode_name(topic)}"


def managed_ledgers(namespace: str, domain: str = "persistent") -> str:
    """Parent of all managed ledgers of a namespace."""
    return f"{MANAGED_LEDGERS}/{namespace}/{domain}"


def managed_ledger(name: str) -> str:
    """``name`` as of ``TopicName.managed_ledger_name``."""
    return f"{MANAGED_LEDGERS}/{name}"


def cursor(managed_ledger_name: str, cursor_name: str) -> str:
    """``cursor_name`` is the decoded subscription name."""
    return f"{MANAGED_LEDGERS}/{managed_ledger_name}/{encode_name(cursor_name)}"


def schema(schema_name: str) -> str:
    """``schema_name`` is ``tenant/ns/encoded-topic``."""
    return f"{SCHEMAS}/{schema_name}"


def bundle_owner(namespace: str, bundle_range: str) -> str:
    """``bundle_range`` is ``0x00000000_0x40000000``."""
    return f"{NAMESPACE}/{namespace}/{bundle_range}"


def broker(broker_id: str) -> str:
    """Registration and load report of a broker; ``broker_id`` is ``host:http-port``."""
    return f"{LOADBALANCE_BROKERS}/{broker_id}"


def available_bookie(bookie_id: str) -> str:
    return f"{AVAILABLE}/{bookie_id}"


def read_only_bookie(bookie_id: str) -> str:
    return f"{READ_ONLY}/{bookie_id}"


def cookie(bookie_id: str) -> str:
    return f"{COOKIES}/{bookie_id}"


def ledger(ledger_id: int) -> str:
    """Metadata of a ledger, in the default hierarchical layout: 2-4-4 digits below 2**31 - 1, else 3-4-4-4-4."""
    if ledger_id < 0:
        raise ValueError(f"ledger id {ledger_id} is negative")
    if ledger_id < LONG_LEDGER_ID:
        digits = f"{ledger_id:010d}"
        return f"{LEDGERS}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    return f"{LEDGERS}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_id(path: str) -> int | None:
    """Ledger id of a metadata path, or None when the path is not one."""
    parts = path.removeprefix(LEDGERS + "/").split("/")
    if not parts[-1].startswith("L"):
        return None
    digits = "".join(parts[:-1]) + parts[-1][1:]
    shapes = ([2, 4, 5], [3, 4, 4, 4, 5])
    if [len(part) for part in parts] not in shapes or not digits.isdigit():
        return None
    return int(digits)


def long_id_directory(high: int) -> str:
    """Directory of one value of the high 32 bits of long ledger ids."""
    return f"{LONG_ID_GENERATOR}/HOB-{high:010d}"


_OF_TOPIC = {
    POLICIES: -1,
    LOCAL_POLICIES: -1,
    NAMESPACE: -1,
    PARTITIONED_TOPICS: 3,
    MANAGED_LEDGERS: 3,
    SCHEMAS: 2,
}
"""Trees whose first two levels are a namespace, and the level of topics there."""
_OF_BROKERS = (LOCAL_POLICIES, NAMESPACE, PARTITIONED_TOPICS, MANAGED_LEDGERS, SCHEMAS)


def whose(path: str) -> tuple[str, str]:
    """``tenant/namespace`` that a path belongs to, and of its topics' paths the encoded name in common to a partitioned
    topic and its partitions; empty texts for none. Of a legacy name its first two parts."""
    depth = 3 if path.startswith("/admin/") else 2
    parts = path.split("/")
    level = _OF_TOPIC.get("/".join(parts[:depth]))
    below = parts[depth:]
    if level is None or len(below) < 2:
        return "", ""
    topic = below[level].partition(PARTITION_SUFFIX)[0] if 0 < level < len(below) else ""
    return f"{below[0]}/{below[1]}", topic


def above_namespace(tenant: str) -> list[str]:
    """Nodes over those that brokers make of a namespace of ``tenant``."""
    return [path for tree in _OF_BROKERS for path in (tree, f"{tree}/{tenant}")]
