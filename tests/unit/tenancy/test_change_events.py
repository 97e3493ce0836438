"""Events of policies' changes, against bytes that Apache Pulsar 4.0.8 wrote and the schema it registered."""

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.base.names import TopicName
from engine.tenancy.change_events import (
    SCHEMA,
    SCHEMA_TEXT,
    key_of,
    new_event,
    policies_of,
    with_policies,
)
from engine.tenancy.policies.values import OffloadForm

GOLDEN = Path(__file__).resolve().parents[2] / "golden/change_events/apache.json"
STORED: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["events"]
TOPIC = TopicName.parse("persistent://public/pol/golden")


def stored(index: int) -> tuple[str, bytes]:
    return STORED[index]["key"], bytes.fromhex(STORED[index]["payload"])


def test_the_schema_is_apaches_to_the_byte() -> None:
    """Compare with the hash in ``/schemas/<namespace>/__change_events`` of Apache's metadata store."""
    digest = sha256(SCHEMA_TEXT.encode()).digest()
    assert b64encode(digest) == b"+jmwErd4zyCOE9dDc/WemiTlCUDIhVlWLByAR3lRXOE="


@pytest.mark.parametrize("index", range(4))
def test_apaches_events_are_written_again_to_the_byte(index: int) -> None:
    _, payload = stored(index)
    event = SCHEMA.decode(payload)
    assert SCHEMA.encode(event) == payload
    assert SCHEMA.encode(with_policies(event, policies_of(event))) == payload


def test_a_change_of_ours_is_what_apache_writes_for_it() -> None:
    key, payload = stored(0)
    event = new_event(TOPIC, "standalone")
    assert SCHEMA.encode(with_policies(event, {"messageTTLInSeconds": 60})) == payload
    assert key_of(TOPIC) == key


def test_a_change_for_all_clusters_is_what_apache_writes_for_it() -> None:
    key, payload = stored(2)
    event = new_event(TOPIC, "standalone", everywhere=True)
    assert SCHEMA.encode(with_policies(event, {"maxConsumerPerTopic": 6})) == payload
    assert key_of(TOPIC, everywhere=True) == key


def test_only_what_is_set_is_given() -> None:
    assert policies_of(SCHEMA.decode(stored(0)[1])) == {"messageTTLInSeconds": 60}
    assert policies_of(SCHEMA.decode(stored(3)[1])) == {}
    full = policies_of(SCHEMA.decode(stored(1)[1]))
    assert full["retentionPolicies"] == {"retentionSizeInMB": 20, "retentionTimeInMinutes": 600}
    assert full["backLogQuotaMap"]["message_age"] == {
        "limit": -1,
        "limitSize": -1,
        "limitTime": 3600,
        "policy": "consumer_backlog_eviction",
    }
    assert full["subscriptionTypesEnabled"] == ["Exclusive", "Shared"]
    assert len(full) == 30


def test_null_and_missing_fields_are_not_set() -> None:
    event = SCHEMA.decode(stored(0)[1])
    for policies in ({}, {"messageTTLInSeconds": None}):
        assert policies_of(with_policies(event, policies)) == {}
    assert policies_of(event) == {"messageTTLInSeconds": 60}  # the event itself stays


def test_a_topic_of_any_domain_and_name_is_named_in_its_event() -> None:
    topic = TopicName.parse("non-persistent://t/n/ü+")
    event = new_event(topic, "c")
    body = event["topicPoliciesEvent"]
    names = [body[key] for key in ("domain", "tenant", "namespace", "topic")]
    assert names == ["non-persistent", "t", "n", "ü+"]
    assert SCHEMA.decode(SCHEMA.encode(event))["replicateTo"] == ["c"]


def test_offload_policies_are_stored_without_what_follows_from_their_driver() -> None:
    policies = {"managedLedgerOffloadDriver": "filesystem", "fileSystemURI": "file:///x"}
    given = OffloadForm().read("offloadPolicies", policies)
    event = with_policies(new_event(TOPIC, "c"), {"offloadPolicies": given})
    stored = SCHEMA.decode(SCHEMA.encode(event))
    assert policies_of(stored)["offloadPolicies"] == given
