"""Policies of what is stored of a topic, for how long, and on which bookies. Pure."""

from engine.base.errors import InvalidRequest
from engine.metadata.records import Document
from engine.tenancy.policies.forms import LONG_MAX, Decimal, Fields, Whole
from engine.tenancy.policies.policy import EffectKind, Policy
from engine.tenancy.policies.policy_calls import (
    Option,
    PolicyRoute,
    ToolCommand,
    admin,
    both_admin,
    ctl,
    topic_admin,
    topic_ctl,
)
from engine.tenancy.policies.values import QuotaForm, check_persistence, check_retention
from engine.tenancy.settings import PolicySettings

QUORUM_MAX = 5
_RETENTION_OPTIONS = (
    Option("--time", "retentionTimeInMinutes", suffix="m"),
    Option("--size", "retentionSizeInMB", suffix="M"),
)
_QUOTA_ACTION = Option("--policy", "policy")


def _quota_default(settings: PolicySettings) -> Document:
    size = settings.backlog_quota_default_limit_bytes
    return {
        "limit": size,
        "limitSize": size,
        "limitTime": settings.backlog_quota_default_limit_second,
        "policy": settings.backlog_quota_default_retention_policy,
    }


def _quota_route(kind: str) -> PolicyRoute:
    return PolicyRoute("backlogQuota", query=f"backlogQuotaType={kind}")


def _quota_commands(
    kind: str, admin_limit: Option, ctl_limit: Option, ctl_fixed: str = ""
) -> tuple[ToolCommand, ...]:
    """Return the commands for one type of quota, with each tool's option of its limit."""
    fixed = f"--type {kind}"
    return (
        *both_admin("backlog-quota", admin_limit, _QUOTA_ACTION, fixed=fixed),
        ctl("backlog-quota", ctl_limit, _QUOTA_ACTION, fixed=f"{fixed} {ctl_fixed}"),
        topic_ctl(
            "backlog-quota",
            ctl_limit,
            _QUOTA_ACTION,
            fixed=f"{fixed} {ctl_fixed}",
            remove=f"remove-backlog-quota {fixed}",
        ),
    )


def _persistence_options(ensemble: str, quorum: str) -> tuple[Option, ...]:
    """Return the options of the numbers of bookies, from the patterns of their flags."""
    return (
        Option(f"--{ensemble.format('ensemble')}", "bookkeeperEnsemble"),
        Option(f"--{quorum.format('write')}", "bookkeeperWriteQuorum"),
        Option(f"--{quorum.format('ack')}", "bookkeeperAckQuorum"),
        Option("--ml-mark-delete-max-rate", "managedLedgerMaxMarkDeleteRate"),
    )


STORAGE: tuple[Policy, ...] = (
    Policy(
        "messageTTL",
        "Message TTL",
        "Messages older than this are acknowledged automatically; 0 is never",
        ("message_ttl_in_seconds",),
        Whole("seconds", refusal="Invalid value for message TTL, message TTL must >= 0"),
        lambda settings: settings.ttl_duration_default_in_seconds,
        ("ttl_duration_default_in_seconds",),
        topic_key=("messageTTLInSeconds",),
        effect=EffectKind.TTL,
        topic_route=PolicyRoute("messageTTL", value_query="messageTTL"),
        commands=(
            admin("message-ttl", Option("--messageTTL")),
            topic_admin("message-ttl", Option("--ttl")),
            ctl("message-ttl", Option("--messageTTL")),
            topic_ctl("message-ttl", Option("--ttl")),
        ),
    ),
    Policy(
        "retention",
        "Retention",
        "Time and size for which acknowledged messages are kept; -1 is no limit; with 0 and 0 they are deleted at once",
        ("retention_policies",),
        Fields(
            {
                "retentionTimeInMinutes": Whole(
                    "minutes",
                    -1,
                    refusal="Invalid retention policy: time limit must be >= -1",
                    kind=InvalidRequest,
                ),
                "retentionSizeInMB": Whole(
                    "MiB",
                    -1,
                    refusal="Invalid retention policy: size limit must be >= -1",
                    kind=InvalidRequest,
                ),
            },
            {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
        ),
        lambda settings: {
            "retentionTimeInMinutes": settings.default_retention_time_in_minutes,
            "retentionSizeInMB": settings.default_retention_size_in_mb,
        },
        ("default_retention_time_in_minutes", "default_retention_size_in_mb"),
        topic_key=("retentionPolicies",),
        effect=EffectKind.RETENTION,
        check=check_retention,
        commands=(
            *both_admin("retention", *_RETENTION_OPTIONS),
            ctl("retention", *_RETENTION_OPTIONS),
            topic_ctl("retention", *_RETENTION_OPTIONS),
        ),
    ),
    Policy(
        "backlogQuota.destination_storage",
        "Backlog quota: size",
        "Action while a subscription's unacknowledged messages exceed this size; -1 is no limit",
        ("backlog_quota_map", "destination_storage"),
        QuotaForm("limitSize"),
        _quota_default,
        ("backlog_quota_default_limit_bytes", "backlog_quota_default_retention_policy"),
        topic_key=("backLogQuotaMap", "destination_storage"),
        effect=EffectKind.SIZE_QUOTA,
        route=_quota_route("destination_storage"),
        topic_route=_quota_route("destination_storage"),
        commands=_quota_commands(
            "destination_storage",
            Option("--limit", "limitSize"),
            Option("--limit-size", "limitSize"),
        ),
    ),
    Policy(
        "backlogQuota.message_age",
        "Backlog quota: age",
        "Action while a subscription's oldest unacknowledged message is older than this; -1 is no limit",
        ("backlog_quota_map", "message_age"),
        QuotaForm("limitTime"),
        _quota_default,
        ("backlog_quota_default_limit_second", "backlog_quota_default_retention_policy"),
        topic_key=("backLogQuotaMap", "message_age"),
        effect=EffectKind.AGE_QUOTA,
        route=_quota_route("message_age"),
        topic_route=_quota_route("message_age"),
        commands=_quota_commands(
            "message_age",
            Option("--limitTime", "limitTime"),
            Option("--limit-time", "limitTime"),
            "--limit-size -1",  # pulsarctl 4 crashes without a size.
        ),
    ),
    Policy(
        "persistence",
        "Ledger replication",
        "Number of bookies that store a topic's new ledgers, and number of them that must confirm a message",
        ("persistence",),
        Fields(
            {
                name: Whole(
                    "bookies",
                    1,
                    QUORUM_MAX,
                    refusal=f"{name} must be from 1 to {QUORUM_MAX}",
                    kind=InvalidRequest,
                )
                for name in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")
            }
            | {"managedLedgerMaxMarkDeleteRate": Decimal("acknowledgements stored per second")},
            {"managedLedgerMaxMarkDeleteRate": 0.0},
        ),
        lambda settings: {
            "bookkeeperEnsemble": settings.managed_ledger_default_ensemble_size,
            "bookkeeperWriteQuorum": settings.managed_ledger_default_write_quorum,
            "bookkeeperAckQuorum": settings.managed_ledger_default_ack_quorum,
            "managedLedgerMaxMarkDeleteRate": 0.0,
        },
        (
            "managed_ledger_default_ensemble_size",
            "managed_ledger_default_write_quorum",
            "managed_ledger_default_ack_quorum",
        ),
        topic_key=("persistence",),
        check=check_persistence,
        commands=(
            *both_admin(
                "persistence", *_persistence_options("bookkeeper-{}", "bookkeeper-{}-quorum")
            ),
            ctl("persistence", *_persistence_options("{}-size", "{}-quorum-size")),
            topic_ctl(
                "persistence", *_persistence_options("bookkeeper-{}", "bookkeeper-{}-quorum")
            ),
        ),
    ),
    Policy(
        "compactionThreshold",
        "Compaction",
        "Bytes published since the last compaction that start the next; 0 is never",
        ("compaction_threshold",),
        Whole("bytes", high=LONG_MAX, refusal="compactionThreshold must be 0 or more"),
        lambda settings: settings.broker_service_compaction_threshold_in_bytes,
        ("broker_service_compaction_threshold_in_bytes",),
        topic_key=("compactionThreshold",),
        route=PolicyRoute("compactionThreshold", method="PUT"),
        commands=(
            *both_admin("compaction-threshold", Option("--threshold")),
            ctl("compaction-threshold", Option("--size")),
            topic_ctl("compaction-threshold", Option("--threshold")),
        ),
    ),
)
