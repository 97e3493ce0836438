"""A trial runs code on stored messages within bounds, shows what it did with each, and changes nothing."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from engine.functions.definitions.functions_pb2 import FunctionMetaData
from engine.functions.instance import trial as child
from engine.functions.runtime import trials
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.trials import TrialRequest, TrialRunner
from engine.functions.runtime.unpacking import Unpacker
from engine.wire import pulsar_pb2 as pb
from tests.support.instances.function_instances import function_details

TOPIC = "persistent://public/default/in"


def entry(n: int, value: bytes, **fields: Any) -> dict[str, Any]:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=n, publish_time=1000 + n, **fields)
    head = metadata.SerializeToString()
    stored = base64.b64encode(len(head).to_bytes(4, "big") + head + value).decode()
    return {"topic": TOPIC, "ledger": 1, "entry": n, "stored": stored}


async def tried(
    folder: Path, code: str, entries: list[dict[str, Any]], limit: int = 10
) -> dict[str, Any]:
    package = folder / "code.py"
    package.write_text(code)
    details = function_details("f", "code.F", [TOPIC], "persistent://public/default/out")
    runner = TrialRunner(Unpacker(folder / "environments"))
    metadata = FunctionMetaData(functionDetails=details)
    return await runner.run(TrialRequest(metadata, package, folder / "run", entries, limit))


CODE = """
import os
from pulsar import Function
class F(Function):
    def process(self, x, context):
        print("printed", x)
        context.get_logger().warning("logged %s", x)
        context.incr_counter("n", 2)
        context.put_state("last", str(x))
        context.publish("persistent://public/default/other", f"to {x}", properties={"k": "v"})
        if x == 2:
            raise ValueError("two")
        return f"{x}! {context.get_counter('n')} {context.get_message_key()} {sorted(os.environ)}"
"""


async def test_each_message_has_what_the_function_did_with_it(tmp_path: Path) -> None:
    entries = [entry(n, b"%d" % n, partition_key=f"k{n}") for n in (3, 1, 2, 0)]
    answer = await tried(tmp_path, CODE, entries, limit=3)
    assert [row["id"] for row in answer["messages"]] == ["1:1", "1:2", "1:3"]
    first, second, third = answer["messages"]
    assert first["input"] == {"text": "1", "bytes": 1}
    assert first["output"]["text"].startswith("1! 2 k1 ['HOME', 'LANG',")
    assert first["logs"] == ["printed 1", "WARNING logged 1"]
    assert first["publications"] == [
        {
            "topic": "persistent://public/default/other",
            "key": None,
            "value": {"text": "to 1", "bytes": 4},
            "properties": {"k": "v"},
        }
    ]
    assert [change["key"] for change in first["state"]] == ["n", "last"]
    assert "ValueError: two" in second["error"]
    assert second["output"] is None
    assert third["output"]["text"].startswith("3! 6 k3")
    assert (answer["ended"], answer["unreadable"]) == ("", 0)
    assert not (tmp_path / "run").exists()


async def test_a_trial_has_no_network_and_no_client(tmp_path: Path) -> None:
    code = """
import socket
class F:
    def process(self, x, context):
        if x == 0:
            return context.get_pulsar_client()
        socket.create_connection(("127.0.0.1", 22), timeout=1)
"""
    answer = await tried(tmp_path, code, [entry(0, b"0"), entry(1, b"1")])
    client, connection = answer["messages"]
    assert "a trial has no Pulsar client" in client["error"]
    if answer["network"]:
        pytest.skip("the operating system permits no network of its own")
    assert "Network is unreachable" in connection["error"]


async def test_messages_processed_before_the_end_of_the_time_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "TRIAL_S", 1)
    monkeypatch.setattr(trials, "START_S", 7)
    code = "import time\nclass F:\n    def process(self, x, context):\n        time.sleep(x == 1 and 600)\n"
    code += "        return x"
    answer = await tried(tmp_path, code, [entry(n, b"%d" % n) for n in range(3)])
    done, stuck = answer["messages"]
    assert done["output"]["text"] == "0"
    assert (stuck["id"], stuck["took_ms"]) == ("1:1", None)
    assert answer["ended"] == "it took more than 1 seconds"
    assert "it took more than 1 seconds" in stuck["error"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return 'x' * (3 << 30)", "MemoryError"),
        ("open('f', 'wb').write(bytes(64 << 20))", "File too large"),
        ("import sys; sys.exit(3)", "its process ended with status"),
    ],
)
async def test_bounds_of_the_process_are_kept(tmp_path: Path, body: str, text: str) -> None:
    code = f"class F:\n    def process(self, x, context):\n        {body}"
    answer = await tried(tmp_path, code, [entry(0, b"0")])
    assert text in answer["messages"][0]["error"]


async def test_an_output_without_end_ends_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "OUTPUT_BYTES_MAX", 20_000)
    code = "class F:\n    def process(self, x, context):\n        return 'y' * 3000"
    answer = await tried(tmp_path, code, [entry(n, b"%d" % n) for n in range(50)], limit=50)
    assert answer["ended"] == "it wrote more than 20000 bytes"
    assert 1 <= len(answer["messages"]) < 50
    assert len(answer["messages"][0]["output"]["text"]) == 3000 <= child.TEXT_MAX


async def test_code_that_does_not_load_is_refused_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="No module named 'nowhere'"):
        await tried(tmp_path, "import nowhere", [entry(0, b"0")])


async def test_entries_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    code = "class F:\n    def process(self, x, context):\n        return x"
    broken = entry(1, b"1") | {"stored": base64.b64encode(os.urandom(30)).decode()}
    chunk = entry(2, b"2", num_chunks_from_msg=2, chunk_id=0, uuid="u")
    answer = await tried(tmp_path, code, [entry(0, b"0"), broken, chunk])
    assert len(answer["messages"]) == 1
    assert answer["unreadable"] == 2
