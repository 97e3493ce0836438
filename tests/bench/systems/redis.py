"""Redis with streams: a server that syncs before it answers and one that syncs each second; ``redis-benchmark``."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from tests.bench.figures import Figures
from tests.bench.systems import outputs
from tests.bench.systems.sides import WINDOW, Side, Work, found, output_of, server
from tests.support.ports import free_ports

_numbers = count()


@contextmanager
def redis(work: Path, name: str, appendfsync: str, share: float) -> Iterator[list[Side]]:
    """Run a server for the length of the block. Raises MissingError."""
    program = found("redis-server", "sudo apt install redis-server")
    tool = found("redis-benchmark", "sudo apt install redis-tools")
    (port,) = free_ports(1)
    options = ("--appendonly", "yes", "--appendfsync", appendfsync, "--save", "")
    address = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(work))
    with server([program, *address, *options], port, work / "log") as (pid, start_s):
        yield [Side(f"Redis, {name}", [pid], start_s, _works(tool, port), share)]


def _works(tool: str, port: int) -> dict[str, Work]:
    def publish(size: int, pipeline: int, messages: int) -> Figures:
        words = ("XADD", f"bench-{next(_numbers)}", "*", "v", "x" * size)
        numbers = ("-n", str(messages), "-c", "1", "-P", str(pipeline))
        return outputs.redis(output_of([tool, "--csv", "-p", str(port), *numbers, *words]))

    def many(size: int, messages: int) -> tuple[Figures, int]:
        return {"messages/s": publish(size, WINDOW, messages)["messages/s"]}, messages

    def one(messages: int) -> tuple[Figures, int]:
        return {"mean ms": publish(1024, 1, messages)["mean ms"]}, messages

    return {
        "publish 100 B": partial(many, 100),
        "publish 1 KB, no batches": partial(many, 1024),
        "one in flight 1 KB": one,
    }
