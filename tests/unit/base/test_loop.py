"""What runs at the end of a wake-up runs before the loop looks for more."""

import asyncio

from engine.base.loop import EventLoop, last_call


def test_last_callbacks_run_behind_all_that_was_ready_and_before_what_that_asked_for() -> None:
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


def test_one_that_fails_is_reported_and_keeps_no_other() -> None:
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


def test_other_loops_take_it_in_their_next_turn() -> None:
    async def main() -> None:
        done = asyncio.Event()
        last_call(asyncio.get_running_loop())(done.set)
        await done.wait()

    asyncio.run(main())
