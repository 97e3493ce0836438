"""Requests that kazoo does not have: their bytes, and answers as ZooKeeper sends them.

That a server understands them is held by ``tests/contract/test_metadata_store.py``.
"""

import struct

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.protocol.states import ZnodeStat

from engine.metadata.kazoo.kazoo_requests import MultiRead
from engine.metadata.zookeeper import ZooKeeperStore

STAT = ZnodeStat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
END = struct.pack("!i?i", -1, True, -1)


def part(kind: int, body: bytes) -> bytes:
    return struct.pack("!i?i", kind, False, 0) + body


def text(some: bytes) -> bytes:
    return struct.pack("!i", len(some)) + some


def test_a_multi_read_requests_values_then_children() -> None:
    asked = b"".join(
        struct.pack("!i?i", kind, False, -1) + text(path) + b"\0"
        for kind, path in ((4, b"/a"), (4, b"/b"), (8, b"/c"))
    )
    assert MultiRead(["/a", "/b"], "/c").serialize() == asked + END
    assert MultiRead([], None).serialize() == END


def test_answers_of_a_multi_read_follow_its_order_and_mark_missing_nodes() -> None:
    stat = struct.pack("!qqqqiiiqiiq", *STAT)
    answer = (
        b"head"
        + part(4, text(b"value") + stat)
        + part(-1, struct.pack("!i", -101))
        + part(8, struct.pack("!i", 2) + text(b"x") + text(b"y"))
        + END
    )
    answers = MultiRead(["/a", "/b"], "/c").deserialize(answer, 4)
    assert answers == [(b"value", STAT), None, ["x", "y"]]


def test_any_other_refusal_fails_the_whole_multi_read() -> None:
    with pytest.raises(NoAuthError):
        MultiRead(["/a"], None).deserialize(part(-1, struct.pack("!i", -102)) + END, 0)


async def test_a_node_that_was_created_without_data_is_read_as_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = part(4, struct.pack("!i", -1) + struct.pack("!qqqqiiiqiiq", *STAT)) + END
    assert MultiRead(["/a"], None).deserialize(answer, 0) == [(b"", STAT)]

    async def read(self: ZooKeeperStore, *arguments: object) -> tuple[None, ZnodeStat]:
        return None, STAT

    monkeypatch.setattr(ZooKeeperStore, "_read", read)
    value, _ = await ZooKeeperStore("127.0.0.1:1", 10.0, "").get("/a")
    assert value == b""
