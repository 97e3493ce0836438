"""User code in the shapes that people have published: it runs as it is, and its mistakes are its own."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.integration.functions.test_instances import end_of, publish, running, texts
from tests.support.instance import Instance
from tests.support.instances.function_instances import Function, function_details, unique
from tests.support.instances.shared import SharedInstance
from tests.support.waiting import until


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


WORDS = """
from pulsar import Function

class WordCount(Function):
    def __init__(self):
        print("made")
        self.seen = 0

    def process(self, item, context):
        self.seen += 1
        for word in item.split(" "):
            context.incr_counter(word, 1)
        logger = context.get_logger()
        logger.info("count of a: {0}".format(context.get_counter("a")))
        return "{} {}".format(self.seen, context.get_counter("a"))
"""
ROUTES = """
from pulsar import Function

class Routing(Function):
    def __init__(self):
        self.fruits = ["apple"]

    def process(self, item, context):
        names = context.get_user_config_map()
        if item in self.fruits:
            context.publish(names["fruit"], item, properties={"kind": "fruit"})
        else:
            context.publish(names["rest"], item, callback=lambda result, message_id: None)
"""
SERDES = """
import json
from pulsar import SerDe

class Order:
    def __init__(self, amount):
        self.amount = amount

class OrderSerDe(SerDe):
    def serialize(self, order):
        return json.dumps({"amount": order.amount}).encode()

    def deserialize(self, data):
        return Order(json.loads(data)["amount"])

def process(order):
    return Order(order.amount * 2)
"""
MISTAKES = """
import asyncio, sys, threading, time
from pulsar import Function

class Mistakes(Function):
    kept = []

    def process(self, item, context):
        if item == "print":
            print("x" * 100000)
            print("to stderr", file=sys.stderr)
        elif item == "thread":
            threading.Thread(target=lambda: [time.sleep(1) for _ in range(10**6)]).start()
        elif item == "exit":
            sys.exit(3)
        elif item == "huge":
            return "h" * (3 << 20)
        elif item == "none":
            return None
        elif item == "loop":
            return asyncio.run(self.later(item))
        elif item == "raise":
            raise KeyError("mine")
        return item

    async def later(self, item):
        await asyncio.sleep(0.01)
        return item + " later"
"""
COROUTINE = "async def process(x):\n    return x\n"


async def test_words_are_counted(client: pulsar.Client, instance: Instance, tmp_path: Path) -> None:
    inside, out = unique("in"), unique("out")
    details = function_details(f"words-{inside[-8:]}", "users_function.WordCount", [inside], out)
    async with running(Function(instance.url, tmp_path, details, WORDS)) as started:
        await asyncio.to_thread(publish, client, inside, b"a b a", b"a c")
        assert await texts(client, out, 2) == ["1 2", "2 3"]
        log = await started.log_tail(50)
        assert "made" in log
        assert "count of a: 3" in log


async def test_messages_are_routed_by_publications(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, fruit, rest = unique("in"), unique("fruit"), unique("rest")
    details = function_details("routes", "users_function.Routing", [inside])
    details.userConfig = json.dumps({"fruit": fruit, "rest": rest})
    async with running(Function(instance.url, tmp_path, details, ROUTES)):
        await asyncio.to_thread(publish, client, inside, b"apple", b"stone")
        assert await texts(client, fruit, 1) == ["apple"]
        assert await texts(client, rest, 1) == ["stone"]


async def test_objects_go_through_a_serde(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, out = unique("in"), unique("out")
    details = function_details("serdes", "users_function", [inside], out)
    details.source.inputSpecs[inside].serdeClassName = "users_function.OrderSerDe"
    details.sink.serDeClassName = "users_function.OrderSerDe"
    async with running(Function(instance.url, tmp_path, details, SERDES)):
        await asyncio.to_thread(publish, client, inside, b'{"amount": 21}')
        assert await texts(client, out, 1) == ['{"amount": 42}']


async def test_mistakes_of_the_code_end_nothing_but_their_own_message(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside, out = unique("in"), unique("out")
    details = function_details("mistakes", "users_function.Mistakes", [inside], out)
    async with running(Function(instance.url, tmp_path, details, MISTAKES)) as started:
        kinds = ("print", "thread", "none", "raise", "loop", "huge", "after")
        await asyncio.to_thread(publish, client, inside, *(kind.encode() for kind in kinds))
        results = await texts(client, out, 5)
        assert [len(text) if len(text) > 100 else text for text in results] == [
            "print", "thread", "loop later", 3 << 20, "after",
        ]  # fmt: skip

        async def shown() -> bool:
            status = await started.status()
            return status.user_exceptions == 1 and "mine" in status.latest_user_exceptions[0].text

        await until(shown, "the exception")
        assert "to stderr" in await started.log_tail(50)
    # The thread that never ends did not keep the process.


async def test_code_that_exits_or_is_a_coroutine_has_a_clear_error(
    client: pulsar.Client, instance: Instance, tmp_path: Path
) -> None:
    inside = unique("in")
    details = function_details("exits", "users_function.Mistakes", [inside], unique("out"))
    await asyncio.to_thread(publish, client, inside, b"exit")
    async with running(Function(instance.url, tmp_path, details, MISTAKES)) as started:
        reason = await asyncio.wait_for(started.wait(), 60)
        assert "SystemExit" in reason.text
    failed = Function(
        instance.url,
        tmp_path,
        function_details("import", "users_function", [unique("in")]),
        "raise RuntimeError('at import')\n",
    )
    assert "at import" in await end_of(failed)
    (tmp_path / "other").mkdir()
    details = function_details("coroutine", "users_function", [unique("in")])
    coroutine = Function(instance.url, tmp_path / "other", details, COROUTINE)
    assert "is a coroutine" in await end_of(coroutine)
