"""Places where reading begins: the texts of ``--from``, and the message ids of times."""

import re
from typing import NamedTuple

from engine.base.ids import Position
from engine.client.message_ids import EARLIEST_ID, LATEST_ID, MessageId
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.messages.values import TIME_FORMS, time_ms

_ID = re.compile(r"(\d{1,19}):(\d{1,19})(?::(-1|\d{1,9}))?(?::(\d{1,9}))?", re.ASCII)
_INT64_MAX = (1 << 63) - 1


class Start(NamedTuple):
    """A place. ``since_ms``: earlier messages are left out; None for a place that is no time."""

    message_id: MessageId
    since_ms: int | None = None

    @property
    def is_named(self) -> bool:
        """True for ``earliest`` and ``latest``."""
        return self.since_ms is None and self.message_id in (EARLIEST_ID, LATEST_ID)


EARLIEST, LATEST = Start(EARLIEST_ID), Start(LATEST_ID)


def parse_start(text: str, now_ms: int) -> Start:
    """Parse ``earliest``, ``latest``, a message id as ``consume --verbose`` prints it, or a time. Raises ValueError."""
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    match = _ID.fullmatch(text)
    if match is not None:
        ledger_id, entry_id = int(match[1]), int(match[2])
        if max(ledger_id, entry_id) <= _INT64_MAX:
            partition, index = int(match[3] or -1), int(match[4] or -1)
            return Start(MessageId(Position(ledger_id, entry_id), partition, index))
    try:
        return Start(EARLIEST_ID, time_ms(text, now_ms))
    except ValueError:
        raise ValueError(
            f"must be earliest, latest, a message id such as 12:0, {TIME_FORMS}, not {text!r}"
        ) from None


async def places(
    connection: ClusterAddress, topics: list[str], start: Start
) -> list[tuple[str, MessageId]]:
    """Return where to begin in each of the topics behind a topic. Raises CommandFailed, MagnetarError.

    A time is looked up by the REST interface.
    """
    if start.since_ms is None:
        return [(topic, start.message_id) for topic in topics]
    # Its HTTP client is for times alone.
    from magnetar.command.connecting.admin import administered, topic_path

    found_places = []
    async with administered(connection) as admin:
        for topic in topics:
            try:
                answer = await admin.call("GET", f"{topic_path(topic)}/messageid/{start.since_ms}")
                position = Position(int(answer["ledgerId"]), int(answer["entryId"]))
            except CommandFailed as error:
                if error.exit_code != Exit.MISSING:
                    raise
                position = Position(-1, -1)  # of an empty topic; earlier messages are left out
            except (KeyError, TypeError, ValueError):
                raise CommandFailed(f"{connection.admin_url} knows no position of a time") from None
            found_places.append((topic, MessageId(position)))
    return found_places


def of_partition(topics: list[str], start: Start) -> list[str]:
    """Return those of the topics that the start is in: of an id, its partition alone. Raises CommandFailed."""
    if start.since_ms is not None or start.is_named or len(topics) == 1:
        return topics
    partition = start.message_id.partition
    if not 0 <= partition < len(topics):
        raise CommandFailed(
            f"the topic has {len(topics)} partitions",
            hint=f"Name the partition in the message id, or one as the topic: {topics[0]}",
        )
    return [topics[partition]]
