"""The floor: an asyncio server that cuts frames and answers, keeping nothing. ``python floor.py PORT``."""

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_frame


class Floor(asyncio.Protocol):
    """Receipts by count, messages never: only publishing can be compared."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.tail = b""
        self.entry = 0

    def data_received(self, data: bytes) -> None:
        data = self.tail + data
        pos, end, out = 0, len(data), []
        while end - pos >= 10:
            stop = pos + 4 + int.from_bytes(data[pos : pos + 4], "big")
            if stop > end:
                break
            size = int.from_bytes(data[pos + 4 : pos + 8], "big")
            out.append(self.answer(data[pos + 8 : pos + 8 + size]))
            pos = stop
        self.tail = data[pos:]
        self.transport.write(b"".join(out))

    def answer(self, raw: bytes) -> bytes:
        if raw[1] == pb.BaseCommand.SEND:
            self.entry += 1
            body = {"producer_id": 1, "sequence_id": self.entry - 1}
            return command_frame(
                "send_receipt", **body, message_id={"ledgerId": 1, "entryId": self.entry}
            )
        command = pb.BaseCommand.FromString(raw)
        match command.type:
            case pb.BaseCommand.CONNECT:
                return command_frame("connected", server_version="floor", protocol_version=20)
            case pb.BaseCommand.PARTITIONED_METADATA:
                wanted = command.partitionMetadata.request_id
                return command_frame(
                    "partitionMetadataResponse", request_id=wanted, partitions=0, response=0
                )
            case pb.BaseCommand.LOOKUP:
                wanted = command.lookupTopic.request_id
                return command_frame(
                    "lookupTopicResponse", request_id=wanted, response=1, brokerServiceUrl=""
                )
            case pb.BaseCommand.PRODUCER:
                wanted = command.producer.request_id
                return command_frame("producer_success", request_id=wanted, producer_name="p")
            case _:
                return b""


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Floor, "127.0.0.1", int(sys.argv[1]))
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
