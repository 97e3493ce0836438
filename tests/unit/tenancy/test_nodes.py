"""Steps of metadata changes refuse with the status and text that they were given."""

import pytest

from engine.base.errors import AlreadyExists, NotFound, PreconditionFailed, Refusal
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.metadata.records import decode_json, encode_json
from engine.metadata.tree import VALUE_MAX
from engine.tenancy import nodes


@pytest.fixture
async def store() -> MemoryStore:
    return MemoryServer().session()


async def test_a_missing_node_is_none_or_refused_with_the_given_reason(store: MemoryStore) -> None:
    assert await nodes.find_node(store, "/a") is None
    assert await nodes.children(store, "/a") == []
    with pytest.raises(Refusal) as refused:
        await nodes.read_node(store, "/a", "no a")
    assert (type(refused.value), refused.value.reason) == (NotFound, "no a")
    with pytest.raises(Refusal) as refused:
        await nodes.change_node(store, "/a", lambda value: value, "no a to change")
    assert (type(refused.value), refused.value.reason) == (NotFound, "no a to change")


async def test_an_empty_parent_node_is_no_record_and_may_become_one(
    store: MemoryStore,
) -> None:
    await nodes.create_node(store, "/a/b", b"{}", "")
    assert await nodes.find_node(store, "/a") is None
    await nodes.create_node(store, "/a", encode_json({"n": 1}), "a exists")
    assert await nodes.read_node(store, "/a", "") == {"n": 1}
    assert await nodes.find_node(store, "/a/b") == {}
    await nodes.remove_holder(store, "/a")
    assert await nodes.find_node(store, "/a") == {"n": 1}


async def test_a_node_is_made_once_and_changed_as_it_is(store: MemoryStore) -> None:
    await nodes.create_node(store, "/a/b", encode_json({"n": 1}), "b exists")
    assert await nodes.read_node(store, "/a/b", "") == {"n": 1}
    with pytest.raises(Refusal) as refused:
        await nodes.create_node(store, "/a/b", b"{}", "b exists")
    assert (type(refused.value), refused.value.reason) == (AlreadyExists, "b exists")
    changed = await nodes.change_node(store, "/a/b", lambda value: value + b" ", "")
    assert decode_json(changed, "b") == {"n": 1}


async def test_a_tree_is_deleted_with_its_children_and_a_node_with_children_is_not(
    store: MemoryStore,
) -> None:
    await nodes.create_node(store, "/a/b/c", b"{}", "")
    await nodes.create_node(store, "/a/d", b"{}", "")
    await nodes.delete_if_empty(store, "/a/b")
    assert await nodes.children(store, "/a") == ["b", "d"]
    await nodes.delete_if_empty(store, "/a/d")
    await nodes.delete_if_empty(store, "/a/d")
    assert await nodes.children(store, "/a") == ["b"]
    await nodes.delete_tree(store, "/a")
    await nodes.delete_tree(store, "/a")
    assert await nodes.children(store, "/") == []


async def test_a_document_larger_than_a_node_is_refused_by_its_size(store: MemoryStore) -> None:
    large = b"x" * (VALUE_MAX + 1)
    why = f"/a: {len(large)} bytes, at most {VALUE_MAX}"
    with pytest.raises(PreconditionFailed, match=why):
        await nodes.create_node(store, "/a", large, "")
    await nodes.create_node(store, "/a", b"small", "")
    with pytest.raises(PreconditionFailed, match=why):
        await nodes.change_node(store, "/a", lambda value: large, "")
    assert (await store.get("/a"))[0] == b"small"
