"""Names by value. Texts of refused topic names are those of the captured conversation raw_invalid_topic_names."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import InvalidNameError
from engine.base.names import (
    HASH_TOP,
    NAME_BYTES_MAX,
    BundleName,
    NamespaceName,
    TopicName,
    check_subscription,
    decode_name,
    encode_name,
    is_transaction_log,
    split_partition,
    split_topic,
)

local_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=40
).filter(lambda text: text.strip() and text not in (".", ".."))
SHORT = "it should be in the format of <tenant>/<namespace>/<topic> or <topic>"


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("x", "persistent://public/default/x"),
        ("/x", "persistent://public/default/x"),
        ("cap/n/short", "persistent://cap/n/short"),
        ("persistent://cap/n/ lead", "persistent://cap/n/ lead"),
        ("persistent://cap/clu/n/v1topic", "persistent://cap/clu/n/v1topic"),
        ("persistent://cap/n/a/b/c", "persistent://cap/n/a/b/c"),
        ("non-persistent://t/n/x", "non-persistent://t/n/x"),
        ("persistent://t-=:._1/n/ü:x", "persistent://t-=:._1/n/ü:x"),
    ],
)
def test_valid_names_expand_to_full_names(text: str, full: str) -> None:
    topic = TopicName.parse(text)
    assert str(topic) == full
    assert TopicName.parse(full) == topic


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", f"Invalid short topic name '', {SHORT}"),
        ("a/b", f"Invalid short topic name 'a/b', {SHORT}"),
        ("a/b/c/d", f"Invalid short topic name 'a/b/c/d', {SHORT}"),
        ("persistent://", "Invalid topic name: persistent://"),
        ("persistent://a/b", "Invalid topic name: persistent://a/b"),
        ("bogus://a/b/c", "Invalid topic domain: 'bogus'"),
        (
            "persistent://cap/n/",
            "Invalid topic name: persistent://cap/n/. Topic local name must not be blank.",
        ),
    ],
)
def test_refused_topic_names_give_pulsars_text(text: str, reason: str) -> None:
    with pytest.raises(InvalidNameError) as refused:
        TopicName.parse(text)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    "text",
    [
        "persistent://a b/n/x",
        "persistent://t/n!/x",
        "persistent://../n/x",
        "persistent://t/./x",
        "persistent://t/n/..",
        "persistent://t//x",
        "persistent:///n/x",
        "persistent://tenänt/n/x",
        "persistent://t/n/\ud800",
        "persistent://t/n/" + "x" * NAME_BYTES_MAX,
    ],
)
def test_names_that_no_metadata_path_can_hold_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="Invalid"):
        TopicName.parse(text)


@given(
    st.lists(st.sampled_from(["a", "b.c", "x-partition-7", "-partition-1", "y/z"]), min_size=3),
    st.sampled_from(["persistent", "non-persistent"]),
)
def test_a_name_is_taken_apart_as_it_is_parsed(parts: list[str], domain: str) -> None:
    full = f"{domain}://{'/'.join(parts)}"
    name = TopicName.parse(full)
    assert split_topic(full) == (domain, name.tenant, name.namespace.below_tenant, name.local)
    assert NamespaceName.parse(f"{name.tenant}/{name.namespace.below_tenant}") == name.namespace
    assert split_partition(full)[1] == name.partition
    if name.partition >= 0:
        assert split_partition(full)[0] == str(name.partitioned)
        assert name.partitioned.partition_at(name.partition) == name


def test_a_suffix_of_thousands_of_digits_is_no_partitions() -> None:
    assert split_partition("persistent://t/n/x-partition-" + "9" * 5_000) == ("", -1)


def test_legacy_name_has_a_cluster_and_keeps_slashes_in_its_local_name() -> None:
    topic = TopicName.parse("persistent://cap/n/a/b/c")
    assert (topic.tenant, topic.namespace.cluster, topic.namespace.local) == ("cap", "n", "a")
    assert topic.local == "b/c"
    assert topic.managed_ledger_name == "cap/n/a/persistent/b%2Fc"


@pytest.mark.parametrize(
    ("local", "index"),
    [
        ("t-partition-0", 0),
        ("t-partition-12", 12),
        ("t-partition-1-partition-2", 2),
        ("t-partition-01", -1),
        ("t-partition-", -1),
        ("t-partition-x", -1),
        ("-partition-3", -1),
        ("t", -1),
    ],
)
def test_partition_index_is_decimal_without_leading_zeros(local: str, index: int) -> None:
    topic = TopicName.parse(f"persistent://t/n/{local}")
    assert topic.partition == index
    if index >= 0:
        assert topic.partitioned.partition_at(index) == topic


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("plain", "plain"),
        ("a/b", "a%2Fb"),
        ("sub/with slash", "sub%2Fwith+slash"),
        ("üml:aut", "%C3%BCml%3Aaut"),
        ("pct%25x", "pct%2525x"),
        ("a~b*c-d_e.f", "a%7Eb*c-d_e.f"),
    ],
)
def test_local_names_are_form_encoded_as_java_does(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded
    assert decode_name(encoded) == name


@given(local_names)
def test_every_local_name_survives_its_metadata_path(local: str) -> None:
    topic = NamespaceName.of("t", "n").topic(local)
    assert topic.encoded_local.isascii()
    assert "/" not in topic.encoded_local
    assert decode_name(topic.encoded_local) == local


def test_bundle_hash_is_the_crc32_of_the_full_name() -> None:
    # Seen on a live Apache Pulsar 4.0.8 with 16 bundles: this topic's bundle was 0x20000000_0x30000000.
    topic = TopicName.parse("fence")
    assert topic.bundle_hash == crc32(b"persistent://public/default/fence")
    bundle = BundleName.parse(topic.namespace, "0x20000000_0x30000000")
    assert bundle.holds(topic.bundle_hash)
    assert str(bundle) == "public/default/0x20000000_0x30000000"


@pytest.mark.parametrize("text", ["zzz", "0x00000000", "0x40000000_0x00000000", "0x_0x1"])
def test_malformed_bundle_ranges_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match=f"Invalid bundle range: {text}"):
        BundleName.parse(NamespaceName.of("t", "n"), text)


def test_the_last_bundle_holds_the_highest_hash() -> None:
    namespace = NamespaceName.of("t", "n")
    assert BundleName(namespace, 0xC0000000, HASH_TOP).holds(HASH_TOP)
    assert not BundleName(namespace, 0, 0x40000000).holds(0x40000000)


@pytest.mark.parametrize("name", ["", "   ", "..", "x" * (NAME_BYTES_MAX + 1)])
def test_subscription_names_that_cannot_be_stored_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        check_subscription(name)


@pytest.mark.parametrize("text", ["bad", "a/b/c/d", "a b/c", ""])
def test_malformed_namespaces_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="Invalid"):
        NamespaceName.parse(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("persistent://public/default/a-s__transaction_pending_ack", True),
        ("persistent://public/default/a-partition-0-s__transaction_pending_ack", True),
        ("persistent://pulsar/system/__transaction_log_0", True),
        ("persistent://pulsar/system/transaction_coordinator_assign-partition-3", True),
        ("persistent://public/default/__transaction_log_0", False),
        ("persistent://public/default/__transaction_buffer_snapshot", False),
        ("persistent://pulsar/system/other", False),
        ("persistent://public/default/a__transaction_pending_ack-b", False),
        ("non-persistent://public/default/a-s__transaction_pending_ack", False),
    ],
)
def test_logs_of_transactions_are_known_by_their_names(name: str, expected: bool) -> None:
    assert is_transaction_log(TopicName.parse(name)) is expected
