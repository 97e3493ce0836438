"""A store that fails at the selected call, with the call done or not done."""

import pytest

from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore, StoreUnavailableError
from tests.support.stores.failing import FailingStore


async def test_the_selected_call_has_no_answer_and_is_done_or_not() -> None:
    inner = MemoryServer().session()
    store = FailingStore(inner)
    checked: MetadataStore = store
    store.fail_at(2)
    await checked.create("/a")
    with pytest.raises(StoreUnavailableError):
        await checked.create("/b")
    assert await inner.exists("/b") is None
    store.fail_at(1, lost_answer=True, calls=2)
    with pytest.raises(StoreUnavailableError):
        await checked.create("/b")
    with pytest.raises(StoreUnavailableError):
        await checked.create("/c")
    assert (store.failed, store.calls) == (2, 2)
    assert await inner.exists("/b") is not None
    assert await checked.exists("/c") is None
    store.fail_at(1)
    store.heal()
    assert await checked.children("/") == ["a", "b"]
    await inner.close()


async def test_calls_that_do_not_count_pass() -> None:
    inner = MemoryServer().session()
    store = FailingStore(inner, lambda operation, path: operation == "put")
    store.fail_at(1)
    await store.create("/a")
    with pytest.raises(StoreUnavailableError):
        await store.put("/a", b"x")
    assert (await store.get("/a"))[0] == b""
    assert store.log == [("put", "/a")]
    await inner.close()
