"""Checks of some policies' values beyond their forms. Pure."""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import InvalidField, InvalidRequest, PreconditionFailed
from engine.metadata.records import Document
from engine.tenancy.policies.forms import LONG_MAX, Choice, Fields, Whole, kind_of

PARTITIONED, PLAIN = "partitioned", "non-partitioned"
WHEN_NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
WHEN_CAUGHT_UP = "delete_when_subscriptions_caught_up"
QUOTA_ACTIONS = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")


def fits(quota: Mapping[str, Any] | None, retention: Mapping[str, Any] | None) -> bool:
    """Return whether a backlog quota is compatible with a retention policy.

    Where retention limits both time and size, both limits of the quota must be below these.
    """
    if not quota or not retention:
        return True
    minutes, megabytes = retention["retentionTimeInMinutes"], retention["retentionSizeInMB"]
    if minutes <= 0 or megabytes <= 0:
        return True
    return bool(quota["limitSize"] < megabytes << 20 and quota["limitTime"] < minutes * 60)


def check_retention(value: Document) -> None:
    """Raise InvalidRequest when one limit is zero and the other is not."""
    minutes, megabytes = value["retentionTimeInMinutes"], value["retentionSizeInMB"]
    if (minutes == 0) != (megabytes == 0):
        raise InvalidRequest(
            "Invalid retention policy: a zero limit needs the other to be zero as well; -1 is no limit",
        )


def check_persistence(value: Document) -> None:
    """Raise InvalidRequest unless ensemble >= write quorum >= ack quorum."""
    ensemble, write, ack = (
        value[f"bookkeeper{name}"] for name in ("Ensemble", "WriteQuorum", "AckQuorum")
    )
    if not ensemble >= write >= ack:
        raise InvalidRequest(
            f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})"
        )


def check_creation(value: Document) -> None:
    """Raise PreconditionFailed for an unknown type of topic, or a number of partitions that the type forbids."""
    refusal = "Invalid configuration for autoTopicCreationOverride. the detail is "
    partitions = value.get("defaultNumPartitions")
    kind = value["topicType"]
    if kind not in (PARTITIONED, PLAIN):
        raise PreconditionFailed(f"{refusal}Unknown topic type [{kind}]")
    if kind == PARTITIONED and not partitions:
        raise PreconditionFailed(
            f"{refusal}[defaultNumPartitions] must be 1 or more when the type is partitioned."
        )
    if kind == PLAIN and partitions:
        raise PreconditionFailed(
            f"{refusal}[defaultNumPartitions] is not allowed when the type is non-partitioned."
        )


def check_replication(clusters: list[str]) -> None:
    """Raise PreconditionFailed for an empty list, and for ``global``, the name that stands for all clusters."""
    if not clusters:
        raise PreconditionFailed("ClusterIds should not be null or empty")
    if "global" in clusters:
        raise PreconditionFailed("Cannot specify global in the list of replication clusters")


class TopicTypeForm:
    """Form of a topic type: any text, which ``check_creation`` checks together with the other fields."""

    def read(self, name: str, given: Any) -> str:
        if not isinstance(given, str):
            raise InvalidField(name, f"expected a text, got {kind_of(given)}")
        return given

    def schema(self) -> Document:
        return {"type": "string", "enum": [PLAIN, PARTITIONED]}


class QuotaForm:
    """Form of a backlog quota; ``limit`` is the old name of ``limitSize`` and is stored beside it."""

    def __init__(self, limit: str) -> None:
        self._shown = limit
        self._form = Fields(
            {
                "limitSize": Whole("bytes", low=-1, high=LONG_MAX),
                "limitTime": Whole("seconds", low=-1),
                "policy": Choice(QUOTA_ACTIONS),
            },
            {"limitSize": -1, "limitTime": -1},
        )

    def read(self, name: str, given: Any) -> Document:
        if isinstance(given, dict) and "limitSize" not in given and "limit" in given:
            given = {**given, "limitSize": given["limit"]}
        value = self._form.read(name, given)
        return {"limit": value["limitSize"], **value}

    def schema(self) -> Document:
        schema = self._form.schema()
        fields = [field for field in schema["fields"] if field["name"] in (self._shown, "policy")]
        return {**schema, "fields": fields}


OFFLOAD_DRIVER = "managedLedgerOffloadDriver"
OFFLOAD_UNSET: Document = {
    "offloadersDirectory": "./offloaders",
    "managedLedgerOffloadMaxThreads": 2,
    "managedLedgerOffloadReadThreads": 2,
    "managedLedgerOffloadPrefetchRounds": 1,
    "managedLedgerExtraConfigurations": {},
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 64 << 20,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
    "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 128 << 20,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
    "s3Driver": False,
    "gcsDriver": False,
    "fileSystemDriver": False,
}
_OFFLOAD_BUCKETS = {
    "S3": "s3ManagedLedgerOffloadBucket",
    "aws-s3": "s3ManagedLedgerOffloadBucket",
    "google-cloud-storage": "gcsManagedLedgerOffloadBucket",
    "filesystem": "",
    "azureblob": "managedLedgerOffloadBucket",
    "aliyun-oss": "managedLedgerOffloadBucket",
}
"""Field that names the bucket which each driver moves ledgers to; empty for a driver that needs none."""


_OFFLOAD_NUMBERS = (
    "managedLedgerOffloadThresholdInBytes",
    "managedLedgerOffloadThresholdInSeconds",
    "managedLedgerOffloadDeletionLagInMillis",
)
_OFFLOAD_TEXTS = (
    *filter(None, _OFFLOAD_BUCKETS.values()),
    "s3ManagedLedgerOffloadRegion",
    "s3ManagedLedgerOffloadServiceEndpoint",
    "gcsManagedLedgerOffloadRegion",
    "managedLedgerOffloadRegion",
    "managedLedgerOffloadServiceEndpoint",
    "fileSystemURI",
)
_OFFLOAD_CREDENTIALS = (
    "s3ManagedLedgerOffloadCredentialId",
    "s3ManagedLedgerOffloadCredentialSecret",
)
OFFLOAD_PRIORITY = "managedLedgerOffloadedReadPriority"
_PRIORITIES = ("BOOKKEEPER_FIRST", "TIERED_STORAGE_FIRST")


def kinds_of_driver(driver: str | None) -> Document:
    """Return the members of offload policies that Apache's brokers derive from the driver and do not store in topics'
    policies."""
    return {
        "s3Driver": driver in ("S3", "aws-s3"),
        "gcsDriver": driver == "google-cloud-storage",
        "fileSystemDriver": driver == "filesystem",
    }


class OffloadForm:
    """Form of the offload policies, which hold no credentials: those are the brokers' own."""

    def read(self, name: str, given: Any) -> Document:
        if given is None:
            raise PreconditionFailed("The offloadPolicies must be specified for namespace offload.")
        if not isinstance(given, dict):
            raise InvalidField(name, f"expected an object, got {kind_of(given)}")
        driver = given.get(OFFLOAD_DRIVER)
        if driver not in _OFFLOAD_BUCKETS:
            supported = ",".join(_OFFLOAD_BUCKETS)
            raise PreconditionFailed(f"The driver is not supported, support value: {supported}")
        bucket = _OFFLOAD_BUCKETS[driver]
        if bucket and not (given.get(bucket) or given.get("managedLedgerOffloadBucket")):
            raise PreconditionFailed("The bucket must be specified for namespace offload.")
        value = {field: part for field, part in given.items() if part is not None}
        for field in _OFFLOAD_CREDENTIALS:
            if value.get(field):
                raise InvalidField(
                    f"{name}.{field}",
                    "policies hold no credentials; brokers take them from their environment",
                )
        for field in _OFFLOAD_NUMBERS:
            if not isinstance(value.get(field, 0), int) or isinstance(value.get(field), bool):
                raise InvalidField(
                    f"{name}.{field}", f"expected a whole number, got {kind_of(value[field])}"
                )
        for field in _OFFLOAD_TEXTS:
            if not isinstance(value.get(field, ""), str):
                raise InvalidField(
                    f"{name}.{field}", f"expected a text, got {kind_of(value[field])}"
                )
        if value.get(OFFLOAD_PRIORITY, _PRIORITIES[0]) not in _PRIORITIES:
            raise InvalidField(
                f"{name}.{OFFLOAD_PRIORITY}", f"expected one of {', '.join(_PRIORITIES)}"
            )
        return {**OFFLOAD_UNSET, **value, **kinds_of_driver(driver)}

    def schema(self) -> Document:
        return {"type": "object"}
