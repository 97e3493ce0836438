"""Messages of the gateway: fields that are left out, and those that are not what they should be."""

import pytest

from engine.metadata.etcd.messages import (
    KeyChange,
    MalformedError,
    below,
    changes_of,
    encoded,
    keys_of,
    number,
    parsed,
)


def test_fields_with_default_values_are_left_out() -> None:
    assert keys_of({}) == []
    assert number({}, "TTL") == 0
    (key,) = keys_of({"kvs": [{"key": encoded("/a"), "version": "1", "create_revision": "7"}]})
    assert (key.key, key.value, key.stat.version, key.stat.ephemeral_owner) == ("/a", b"", 0, 0)


def test_events_say_whether_the_key_came_or_went() -> None:
    changed = {"key": encoded("/a"), "create_revision": "5", "mod_revision": "7"}
    created = {"key": encoded("/a"), "create_revision": "7", "mod_revision": "7"}
    deleted = {"key": encoded("/a"), "mod_revision": "7"}
    result = {"events": [{"kv": changed}, {"kv": created}, {"type": "DELETE", "kv": deleted}]}
    assert changes_of(result) == [KeyChange("/a", 7, listed) for listed in (False, True, True)]


def test_the_range_below_a_key_has_its_descendants_and_no_neighbours() -> None:
    first, end = below("/a")
    assert all(first <= key < end for key in ("/a/", "/a/b", "/a/~/~"))
    assert not any(first <= key < end for key in ("/a", "/a-b", "/a0", "/ab", "/a.b"))


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b"\xff", b"7"])
def test_other_data_is_no_message(data: bytes) -> None:
    with pytest.raises(MalformedError):
        parsed(data)


@pytest.mark.parametrize(
    "kvs", [{}, [7], [{"key": "?"}], [{"key": 7}], [{"key": "YQ==", "version": []}]]
)
def test_other_keys_are_malformed(kvs: object) -> None:
    with pytest.raises(MalformedError):
        keys_of({"kvs": kvs})
