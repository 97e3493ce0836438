"""The work of ``magnetar produce`` (P1)."""

import asyncio
import errno
import os
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import click

from engine.base.clock import SystemClock
from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient
from engine.client.errors import REFUSALS, ServerError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Routing
from engine.client.producing.partition_producer import BatchSettings, ProducerSettings, SendResult
from engine.schema.kinds import InvalidSchemaError
from engine.wire import pulsar_pb2 as pb
from magnetar.command.connecting.client import connected
from magnetar.command.connecting.failures import failure
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.messages.lines import lines
from magnetar.command.messages.progress import count, notice, progress
from magnetar.command.messages.schemas import TopicSchema, schema_of
from magnetar.command.messages.sending import Sender
from magnetar.command.messages.shown import json_line
from magnetar.command.messages.values import time_ms

SETTLE_S = 2.0
"""Time for receipts under way, after an error or Ctrl-C."""
_TICKS = 20
"""Runs a second, at most, with --rate."""
_KEY_IN_BASE64 = pb.MessageMetadata(partition_key_b64_encoded=True).SerializePartialToString()


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """The options of the command."""

    messages: Sequence[str]
    files: Sequence[IO[bytes]]
    key: str | None
    key_separator: bytes
    properties: dict[str, str]
    event_ms: int
    delay_ms: int
    rate: float | None
    repeat: int
    compression: int
    chunks: bool
    raw: bool
    timeout_s: float
    quiet: bool
    as_json: bool

    @classmethod
    def of(
        cls,
        *,
        key_separator: str | None,
        properties: Sequence[tuple[str, str]],
        event_time: str | None,
        delay: float | None,
        compression: str,
        timeout: float,
        **others: Any,
    ) -> "PublishOptions":
        """Return the options as they are used. Raises click.UsageError."""
        if key_separator is not None and others["key"] is not None:
            raise click.UsageError("--key and --key-separator exclude each other")
        if key_separator == "":
            raise click.BadParameter("must not be empty", param_hint="--key-separator")
        from_input = not others["messages"] and not others["files"]
        if others["repeat"] > 1 and from_input:
            raise click.UsageError("--repeat is for messages on the command line and files")
        try:
            event_ms = time_ms(event_time, SystemClock().wall_ms()) if event_time else 0
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--event-time") from None
        if delay is not None and delay > 10 * 366 * 86_400:
            raise click.BadParameter("must be below ten years", param_hint="--delay")
        return cls(
            key_separator=os.fsencode(key_separator or ""),
            properties=dict(properties),
            event_ms=event_ms,
            delay_ms=int((delay or 0) * 1000),
            compression=pb.CompressionType.Value(compression.upper()),
            timeout_s=timeout,
            **others,
        )

    async def contents(self) -> AsyncIterator[list[bytes]]:
        """Yield runs of contents: of the command line and files, else of the standard input."""
        if self.messages or self.files:
            given = [os.fsencode(message) for message in self.messages]
            given += [file.read() for file in self.files]
            for _ in range(self.repeat):
                yield given
            return
        if sys.stdin.isatty():
            notice("each line is a message; Ctrl-D ends")
        async for run in lines(sys.stdin.fileno()):
            yield run


async def publish(connection: ClusterAddress, topic: str, options: PublishOptions) -> None:
    """Publish all contents. Raises CommandFailed with the number of stored messages, and MagnetarError before the first
    message. After a cancellation the receipts under way are awaited for SETTLE_S."""
    async with connected(connection) as client:
        await client.partitions(topic)  # which fails at once when no broker answers
        schema = None if options.raw else await _schema(client, topic)
        sender = await Sender.open(client, topic, _settings(options, schema), _receipts(options))
        try:
            shown = options.quiet or not sys.stdout.isatty()
            async with progress(lambda: f"{count(sender.confirmed)} stored", shown=shown):
                await _send_all(sender, options, schema)
        except BaseException as error:
            await sender.settled(SETTLE_S)
            raise _failed(error, sender, connection, topic) from error
        finally:
            await sender.close()
    if not options.quiet and not options.as_json:
        notice(f"{count(sender.confirmed)} stored in {topic}")


async def _schema(client: PulsarClient, topic: str) -> TopicSchema | None:
    try:
        return await schema_of(client, topic)
    except InvalidSchemaError as error:
        hint = "Send bytes that you encoded yourself with --raw"
        raise CommandFailed(f"the topic's schema: {error}", hint=hint) from None
    except REFUSALS[ServerError.AuthorizationError]:
        return None  # who may publish may not always read schemas; the broker checks the producer


def _settings(options: PublishOptions, schema: TopicSchema | None) -> ProducerSettings:
    # A batch goes to the consumer of its first key: messages with keys travel alone.
    has_keys = options.key is not None or options.key_separator
    many = not (options.messages or options.files) or options.repeat > 1
    return ProducerSettings(
        send_timeout_s=options.timeout_s,
        routing=Routing.ROUND_ROBIN,
        compression=options.compression,
        chunking=options.chunks,
        schema=None if schema is None else schema.wire,
        batching=BatchSettings(delay_s=0.005) if many and not has_keys else None,
    )


async def _send_all(sender: Sender, options: PublishOptions, schema: TopicSchema | None) -> None:
    loop = asyncio.get_running_loop()
    began, clock, number = loop.time(), SystemClock(), 0
    step = max(1, int(options.rate / _TICKS)) if options.rate else 1000
    async for run in options.contents():
        for first in range(0, len(run), step):
            if options.rate:
                await asyncio.sleep(began + number / options.rate - loop.time())
            now_ms = clock.wall_ms()
            messages = []
            for content in run[first : first + step]:
                number += 1
                messages.append(_message(content, number, now_ms, options, schema, sender))
            await sender.send(messages)
    await sender.drained()


def _message(
    content: bytes,
    number: int,
    now_ms: int,
    options: PublishOptions,
    schema: TopicSchema | None,
    sender: Sender,
) -> OutgoingMessage:
    """Return a message; ``number`` counts from 1. Raises CommandFailed when the content is not as it must be."""
    key, extra = options.key, b""
    if options.key_separator:
        text, separator, content = content.partition(options.key_separator)
        if not separator:
            raise CommandFailed(f"message {number} has no key separator", Exit.USAGE)
        key = text.decode(errors="backslashreplace")
    elif key is not None:
        key = os.fsencode(key).decode(errors="backslashreplace")
    if schema is not None:
        content, encoded_key = _encoded(schema, content, key, number)
        if encoded_key is not None:
            key, extra = b64encode(encoded_key).decode(), _KEY_IN_BASE64
        version = sender.producer.schema_version
        if version:
            extra += pb.MessageMetadata(schema_version=version).SerializePartialToString()
    return OutgoingMessage(
        content,
        token=number,
        key=key,
        properties=options.properties or None,
        event_ms=options.event_ms,
        deliver_at_ms=now_ms + options.delay_ms if options.delay_ms else 0,
        extra_metadata=extra,
    )


def _encoded(
    schema: TopicSchema, content: bytes, key: str | None, number: int
) -> tuple[bytes, bytes | None]:
    from engine.schema.encoding import UnencodableError

    try:
        return schema.encoded(content, key)
    except (UnencodableError, UnicodeDecodeError) as error:
        raise CommandFailed(
            f"message {number} does not fit the topic's schema {schema.kind}: {error}",
            hint="Correct it, or send the bytes as they are with --raw",
        ) from None


def _receipts(options: PublishOptions) -> Any:
    """Return the function that prints receipts."""

    def show(results: Sequence[SendResult]) -> None:
        rows = [_receipt(result, as_json=options.as_json) for result in results]
        click.echo("\n".join(rows))

    return (lambda results: None) if options.quiet else show


def _receipt(result: SendResult, *, as_json: bool) -> str:
    message_id = result.message_id
    assert message_id is not None
    ledger_id, entry_id = message_id.position
    text = f"{ledger_id}:{entry_id}:{message_id.partition}"
    if message_id.batch_size:
        text += f":{message_id.batch_index}"
    if not as_json:
        return text
    row = {"message": result.token, "message_id": text, "ledger": ledger_id, "entry": entry_id}
    if message_id.partition >= 0:
        row["partition"] = message_id.partition
    return json_line(row)


def _failed(
    error: BaseException, sender: Sender, connection: ClusterAddress, topic: str
) -> BaseException:
    """Return the error with the account of what was stored."""
    account = f"{sender.confirmed:,} of {count(sender.sent)} stored"
    if sender.refused:
        account += f", {sender.refused:,} refused"
    if sender.unknown:
        account += f", {sender.unknown:,} without a receipt, which may be stored"
    account = f"{account}; then" if sender.sent else "nothing was sent"
    if isinstance(error, MagnetarError):
        error = failure(error, connection, topic)
    elif isinstance(error, OSError) and error.errno != errno.EPIPE:
        error = CommandFailed(f"cannot write the output: {error.strerror}")
    if isinstance(error, CommandFailed):
        code = Exit(error.exit_code)
        return CommandFailed(f"{account}: {error.message}", code, error.hint)
    notice(account.removesuffix("; then"))
    return error
