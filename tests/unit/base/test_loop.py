"""Last callbacks of a turn of the event loop, and garbage collections that seldom visit old objects."""

import asyncio
import subprocess
import sys

import pytest

from engine.base.loop import EventLoop, last_call, waited_s
from tests.support.instance import ROOT


def test_last_callbacks_run_after_all_ready_ones_and_before_those_they_schedule() -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        last = last_call(loop)

        def more() -> None:
            seen.append("last")
            last(lambda: seen.append("last of the last"))

        last(more)
        loop.call_soon(lambda: seen.append("next turn"))
        seen.append("this turn")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(main())
    assert seen == ["this turn", "last", "last of the last", "next turn"]


def test_the_loop_measures_the_time_in_which_it_waits() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        before_s = waited_s(loop)
        assert before_s is not None
        await asyncio.sleep(0.05)
        slept_s = (waited_s(loop) or 0.0) - before_s
        until_s = loop.time() + 0.02
        while loop.time() < until_s:
            await asyncio.sleep(0)
        return slept_s, (waited_s(loop) or 0.0) - before_s - slept_s

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        slept_s, busy_wait_s = runner.run(main())
    assert slept_s > 0.04
    assert busy_wait_s == 0.0
    loop = asyncio.new_event_loop()
    assert waited_s(loop) is None
    loop.close()


def test_a_failing_last_callback_is_reported_and_the_next_one_runs() -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(repr(context["exception"])))
        last_call(loop)(lambda: 1 / 0)
        last_call(loop)(lambda: seen.append("other"))
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(main())
    assert seen == ["ZeroDivisionError('division by zero')", "other"]


def test_other_event_loops_run_a_last_callback_in_their_next_turn() -> None:
    async def main() -> None:
        done = asyncio.Event()
        last_call(asyncio.get_running_loop())(done.set)
        await done.wait()

    asyncio.run(main())


OLD_CIRCLES = """
import gc, sys, weakref
from engine.base.loop import shorten_collections

class Node:
    pass

def circle():
    node = Node()
    node.me = node
    return node, weakref.ref(node)

shorten_collections()
young, of_young = circle()
del young
gc.collect(1)
assert of_young() is None, "a young circle"
old, of_old = circle()
gc.collect(1)
del old
gc.collect()
assert of_old() is not None, "before the heap has doubled"
more = [[n] for n in range(sys.getallocatedblocks())]
gc.collect()
assert of_old() is None, "when the heap has doubled"
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="its collector looks at a little at a time")
def test_old_objects_are_collected_only_once_the_heap_has_doubled() -> None:
    subprocess.run([sys.executable, "-c", OLD_CIRCLES], check=True, cwd=ROOT)


GROWING = """
import gc, sys
from engine.base import loop

class Node:
    pass

loop.MEASURE_EVERY = 1
loop.shorten_collections()
full = []
gc.callbacks.append(lambda phase, info: full.append(info) if info["generation"] == 2 else None)
base = sys.getallocatedblocks()
old = []
while len(full) < 4:  # twice, before and after
    assert sys.getallocatedblocks() < 8 * base, "the heap has doubled twice"
    node = Node()
    node.me = node
    old.append(node)
    del old[:-3000]  # each has seen two collections, and is in a circle
assert full[1]["collected"] > base // 10
assert gc.get_freeze_count() > 0, "what was left is young again"
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="its collector looks at a little at a time")
def test_a_heap_of_old_reference_cycles_is_collected_automatically() -> None:
    subprocess.run([sys.executable, "-c", GROWING], check=True, cwd=ROOT)


def test_a_lack_of_descriptors_is_logged_once_in_each_attempt() -> None:
    code = """
import asyncio, resource, socket
from engine.base.loop import EventLoop
from engine.net.network import LoopNetwork

failures = []

async def main():
    loop = asyncio.get_running_loop()
    first = loop.create_future()

    def failed(loop, context):
        failures.append(context)
        if not first.done():
            first.set_result(None)

    loop.set_exception_handler(failed)
    server = await LoopNetwork().listen("127.0.0.1", 0, asyncio.Protocol)
    clients = [socket.create_connection(("127.0.0.1", server.port))]
    # No descriptor is left from here on.
    resource.setrlimit(resource.RLIMIT_NOFILE, (clients[0].fileno() + 1, 4096))
    await first
    await asyncio.sleep(0)

with asyncio.Runner(loop_factory=EventLoop) as runner:
    runner.run(main())
assert len(failures) == 1, len(failures)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
