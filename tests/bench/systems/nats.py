"""NATS with JetStream: a server that syncs each message and one that does not, and the load program of its CLI."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from tests.bench.figures import Figures
from tests.bench.systems import outputs
from tests.bench.systems.sides import WINDOW, Side, Work, found, output_of, server
from tests.support.ports import free_ports

SETTINGS = """listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{folder}", sync_interval: {interval}, max_file: 1TB }}
"""
_numbers = count()


@contextmanager
def nats(work: Path, name: str, interval: str, share: float) -> Iterator[list[Side]]:
    """Run a server for the length of the block. Raises MissingError."""
    program = found("nats-server", "go install github.com/nats-io/nats-server/v2@v2.15.3")
    tool = found("nats", "go install github.com/nats-io/natscli/nats@v0.5.1")
    (port,) = free_ports(1)
    settings = work / "nats.conf"
    settings.write_text(SETTINGS.format(port=port, folder=work / "data", interval=interval))
    with server([program, "-c", str(settings)], port, work / "log") as (pid, start_s):
        yield [Side(f"NATS, {name}", [pid], start_s, _works(tool, port), share)]


def _works(tool: str, port: int) -> dict[str, Work]:
    def call(stream: str, messages: int, *words: str) -> Figures:
        numbers = ("--msgs", str(messages), "--stream", stream, "--no-progress")
        address = ("--server", f"nats://127.0.0.1:{port}")
        return outputs.nats(output_of([tool, "bench", "js", *words, *numbers, *address]))

    def publish(size: int, messages: int, *words: str) -> tuple[str, Figures]:
        stream = f"bench{next(_numbers)}"
        create = ("--create", "--storage", "file", "--maxbytes", "8GB")
        figures = call(stream, messages, "pub", *words, stream, *create, "--size", str(size))
        return stream, figures

    def many(size: int, messages: int) -> tuple[Figures, int]:
        figures = publish(size, messages, "async", "--batch", str(WINDOW))[1]
        return {"messages/s": figures["messages/s"]}, messages

    def one(messages: int) -> tuple[Figures, int]:
        return {"mean ms": publish(1024, messages, "sync")[1]["mean ms"]}, messages

    def consume(messages: int) -> tuple[Figures, int]:
        stream, _ = publish(1024, messages, "async", "--batch", str(WINDOW))
        return call(stream, messages, "ordered"), 0

    return {
        "publish 100 B": partial(many, 100),
        "publish 1 KB, no batches": partial(many, 1024),
        "one in flight 1 KB": one,
        "consume 1 KB": consume,
    }
