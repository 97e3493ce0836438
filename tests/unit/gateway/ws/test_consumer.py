"""The consumer and reader endpoints between a played client and a played broker: permits and acknowledgements."""

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.client.message_ids import MessageId
from gateway.ws import consumer as endpoint
from tests.unit.gateway.ws.socket_bench import Consumer, Message, Reader, Socket, identity, settled


def text_of(number: int) -> str:
    return base64.b64encode(MessageId.parse(identity(number).serialize()).serialized()).decode()


class Talk:
    """A socket's life under way. ``out``: deliveries that the client has not answered, by message."""

    def __init__(self, peer: Any, *, size: int = 0, pull: bool = False) -> None:
        self.socket = Socket()
        self.peer = peer
        self.flow = endpoint._Flow()
        self.flow.window.pull = pull
        if size:
            self.flow.window.allow(size)
        self._by_text: dict[str, int] = {}
        self._read = 0
        self.out: Counter[int] = Counter()

    async def came(self) -> list[int]:
        """What newly went out to the client, once everything has settled."""
        await settled()
        frames, self._read = self.socket.out[self._read :], len(self.socket.out)
        numbers = [int(base64.b64decode(frame["payload"])) for frame in frames]
        self.out.update(numbers)
        return numbers

    async def answer(self, number: int, kind: str | None = None) -> None:
        self.socket.say(messageId=text_of(number), **({"type": kind} if kind else {}))
        self.out.pop(number, None)
        await settled()


@asynccontextmanager
async def talking(peer: Any, **options: Any) -> AsyncIterator[Talk]:
    talk = Talk(peer, **options)
    task = asyncio.get_running_loop().create_task(endpoint._talk(talk.socket, peer, talk.flow))  # type: ignore[arg-type]
    try:
        yield talk
    finally:
        talk.socket.hang_up()
        await task


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["ack", "negativeAcknowledge", "bogus"]), st.integers(0, 7)),
    ),
    max_size=40,
)


@given(size=st.integers(1, 4), steps=STEPS)
async def test_permits_are_conserved_in_push_mode(size: int, steps: list[tuple[str, int]]) -> None:
    """However messages come, come again and are answered: as many are out as may be, and in the end all may again."""
    peer = Consumer()
    async with talking(peer, size=size) as talk:
        for what, number in steps:
            if what == "deliver":
                peer.deliver(number)
            else:
                await talk.answer(number, None if what == "ack" else what)
            await talk.came()
            assert talk.out.total() <= size
            assert talk.out.total() == size or peer.queue.empty(), "held back with room left"
        while talk.out:
            await talk.answer(next(iter(talk.out)))
            await talk.came()
        peer.deliver(*range(100, 101 + size))
        assert await talk.came() == list(range(100, 100 + size)), "the window is whole again"


@given(steps=st.lists(st.one_of(STEPS.map(lambda s: s[:3]), st.integers(1, 3)), max_size=10))
async def test_permits_are_conserved_in_pull_mode(steps: list[Any]) -> None:
    """As many deliveries as the client permitted, first ones and repeated ones alike; answers permit nothing."""
    peer, permitted, sent = Consumer(), 0, 0
    async with talking(peer, pull=True) as talk:
        for step in steps:
            if isinstance(step, int):
                talk.socket.say(type="permit", permitMessages=step)
                permitted += step
            else:
                for what, number in step:
                    if what == "deliver":
                        peer.deliver(number)
                    else:
                        await talk.answer(number, None if what == "ack" else what)
            sent += len(await talk.came())
            assert sent <= permitted
            assert sent == permitted or peer.queue.empty()


async def test_messages_that_come_again_cost_no_room_for_good() -> None:
    peer = Consumer()
    async with talking(peer, size=4) as talk:
        for _ in range(10):  # as after as many restarts of the broker
            peer.deliver(1, 2, 1, 2)
            assert await talk.came() == [1, 2, 1, 2]
            for number in (1, 2, 1, 2):  # a client answers every frame
                await talk.answer(number)
        peer.deliver(1, 2, 3, 4)
        assert await talk.came() == [1, 2, 3, 4]


async def test_one_permit_frame_may_add_to_another_without_bound() -> None:
    peer = Consumer()
    async with talking(peer, pull=True) as talk:
        for _ in range(3):
            talk.socket.say(type="permit", permitMessages=endpoint.PERMITS_MAX)
        await settled()
        assert talk.flow.window._free == 3 * endpoint.PERMITS_MAX - 1  # one waits for its message


async def test_a_message_is_acknowledged_only_when_the_client_says_so() -> None:
    peer = Consumer()
    async with talking(peer, size=3) as talk:
        peer.deliver(1, 2, 3)
        assert await talk.came() == [1, 2, 3]
        assert peer.acknowledged == []
        await talk.answer(2)
        await talk.answer(3, "negativeAcknowledge")
    assert (peer.acknowledged, peer.refused) == ([2], [3])


async def test_an_acknowledgement_that_fails_leaves_the_socket_and_the_window_whole() -> None:
    peer = Consumer()
    async with talking(peer, size=1) as talk:
        peer.deliver(1)
        assert await talk.came() == [1]
        peer.failing = True
        await talk.answer(1)
        peer.failing = False
        peer.deliver(1)  # the message comes again
        assert await talk.came() == [1]
        await talk.answer(1)
        assert peer.acknowledged == [1]
        assert not talk.socket.closed


async def test_a_readers_window_is_conserved_too() -> None:
    peer = Reader()
    async with talking(peer, size=2) as talk:
        for number in (1, 1, 2, 3):  # a broker that went away sends the first once more
            peer.queue.put_nowait(Message(number))
        assert await talk.came() == [1, 1]
        await talk.answer(1)
        assert await talk.came() == [2, 3]
