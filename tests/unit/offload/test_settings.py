"""Tiered storage in force: the broker's settings, and what namespaces and topics choose instead."""

from typing import Any

import pytest

from engine.base.errors import InvalidField, PreconditionFailed
from engine.broker.policies import OffloadRows, _chosen_storage
from engine.offload.bucket import ALIYUN, FILES, GOOGLE, S3, Bucket, recorded_bucket
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.settings import OffloadSettings
from engine.tenancy.policies.values import OffloadForm

COLD = Bucket(S3, "cold", "eu", "http://s3")


def settings(**values: Any) -> OffloadSettings:
    names = {"driver": "aws-s3", "bucket": "cold", "region": "eu", "service_endpoint": "http://s3"}
    given = {f"managed_ledger_offload_{name}": value for name, value in names.items()}
    return OffloadSettings(**given | values)


def rows(document: dict[str, Any] | None, **numbers: Any) -> OffloadRows:
    return OffloadRows(_chosen_storage(document), **numbers)


def test_without_a_driver_there_is_no_policy() -> None:
    assert OffloadSettings().policy is None
    assert rows(None, threshold_bytes=0).policy(None) is None
    assert rows({"managedLedgerOffloadThresholdInBytes": 5}).policy(None) is None


def test_settings_are_the_policy_where_nothing_else_is_set() -> None:
    policy = settings(
        managed_ledger_offload_auto_trigger_size_threshold_bytes=10,
        managed_ledger_offload_threshold_in_seconds=20,
        managed_ledger_offload_deletion_lag_ms=-1,
        managed_ledger_data_read_priority="bookkeeper-first",
    ).policy
    assert policy == OffloadPolicy(COLD, 10, 20.0, -1.0, bookies_first=True)
    assert OffloadRows().policy(policy) == policy


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"managed_ledger_offload_driver": "tape"}, "must be one of aws-s3, .*, not tape"),
        ({"managed_ledger_offload_bucket": ""}, "managed_ledger_offload_bucket must be set"),
        ({"managed_ledger_offload_driver": "filesystem"}, "file_system_uri must be set"),
        ({"managed_ledger_data_read_priority": "first"}, "must be tiered-storage-first or"),
    ],
)
def test_a_wrong_setting_is_named(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_numbers_of_a_topic_prevail_over_those_of_its_namespace_and_these_over_settings() -> None:
    unset = settings().policy
    document = {"managedLedgerOffloadDriver": "S3", "managedLedgerOffloadBucket": "own"}
    policy = rows(document, threshold_bytes=7, deletion_lag_ms=9000).policy(unset)
    assert policy == OffloadPolicy(Bucket(S3, "own", endpoint="http://s3"), 7, -1.0, 9.0)
    own = rows(
        {
            "managedLedgerOffloadDriver": "google-cloud-storage",
            "gcsManagedLedgerOffloadBucket": "g",
            "managedLedgerOffloadBucket": "other",
            "managedLedgerOffloadThresholdInBytes": 0,
            "managedLedgerOffloadThresholdInSeconds": 60,
            "managedLedgerOffloadDeletionLagInMillis": -1,
            "managedLedgerOffloadedReadPriority": "BOOKKEEPER_FIRST",
        },
        threshold_bytes=7,
        threshold_s=7,
        deletion_lag_ms=7,
    )
    assert own.policy(unset) == OffloadPolicy(Bucket(GOOGLE, "g"), 0, 60.0, -1.0, True)


def test_a_driver_without_a_bucket_is_that_of_the_broker() -> None:
    unset = OffloadSettings(
        managed_ledger_offload_driver="filesystem", file_system_uri="file:///cold"
    ).policy
    policy = rows({"managedLedgerOffloadDriver": "filesystem"}).policy(unset)
    assert policy is not None
    assert policy.bucket == Bucket(FILES, "/cold")


def test_a_policy_names_no_folder_and_no_address_of_its_own() -> None:
    files = {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///etc"}
    assert rows(files).policy(None) is None
    assert rows(files).policy(settings().policy) is None
    unset = OffloadSettings(managed_ledger_offload_driver="filesystem", file_system_uri="/cold")
    policy = rows(files).policy(unset.policy)
    assert policy is not None
    assert policy.bucket == Bucket(FILES, "/cold")
    s3 = {
        "managedLedgerOffloadDriver": "aws-s3",
        "managedLedgerOffloadBucket": "own",
        "managedLedgerOffloadServiceEndpoint": "http://169.254.169.254",
    }
    for broker, endpoint in ((None, ""), (settings().policy, "http://s3")):
        policy = rows(s3).policy(broker)
        assert policy is not None
        assert policy.bucket == Bucket(S3, "own", endpoint=endpoint)


def test_a_policy_is_stored_with_pulsars_defaults_and_without_credentials() -> None:
    form = OffloadForm()
    document = {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///x"}
    assert form.read("offloadPolicies", document) == {
        "offloadersDirectory": "./offloaders",
        "managedLedgerOffloadDriver": "filesystem",
        "managedLedgerOffloadMaxThreads": 2,
        "managedLedgerOffloadReadThreads": 2,
        "managedLedgerOffloadPrefetchRounds": 1,
        "managedLedgerExtraConfigurations": {},
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 64 << 20,
        "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
        "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
        "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 128 << 20,
        "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1 << 20,
        "fileSystemURI": "file:///x",
        "s3Driver": False,
        "gcsDriver": False,
        "fileSystemDriver": True,
    }
    for field, value in (
        ("s3ManagedLedgerOffloadCredentialSecret", "hush"),
        ("managedLedgerOffloadThresholdInBytes", "10M"),
        ("managedLedgerOffloadThresholdInBytes", True),
        ("managedLedgerOffloadBucket", 5),
        ("managedLedgerOffloadedReadPriority", "FIRST"),
    ):
        with pytest.raises(InvalidField, match=rf"offloadPolicies\.{field}"):
            form.read("offloadPolicies", {**document, field: value})
    with pytest.raises(PreconditionFailed, match="The bucket must be specified"):
        form.read("offloadPolicies", {"managedLedgerOffloadDriver": "aws-s3"})


@pytest.mark.parametrize("bucket", [COLD, Bucket(FILES, "/cold"), Bucket(ALIYUN, "a")])
def test_a_recorded_bucket_is_opened_again(bucket: Bucket) -> None:
    assert recorded_bucket(bucket.driver, bucket.properties) == bucket
