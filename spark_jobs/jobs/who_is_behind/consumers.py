"""Backlog by consumer, as the brokers answer it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spark_jobs.analysis import AskHolders
from spark_jobs.jobs.kit.tables import plural, table
from spark_jobs.jobs.who_is_behind.backlog import StoredBacklog

ASKING = "asking brokers"
NOT_ASKED = "no broker can be asked here"
"""Reason in results of a job that runs without the gateway."""
CONSUMERS_MAX = 1000
"""Consumers of a subscription that are listed."""
Held = dict[str, Any] | str
"""A broker's answer to the operation ``holders``, or the reason why it is not known."""


def asked(
    holders: AskHolders | None, backlogs: Sequence[StoredBacklog], behind: Sequence[int]
) -> dict[int, Held]:
    """Return the answers about the subscriptions that are behind, by their numbers."""
    if holders is None:
        return dict.fromkeys(behind, NOT_ASKED)
    if not behind:
        return {}
    names = [(backlogs[n].topic, backlogs[n].subscription) for n in behind]
    return dict(zip(behind, holders(names), strict=True))


def sentence_of(held: Held) -> str:
    """Return the finding about the consumers of a subscription."""
    if isinstance(held, str):
        return f"Which consumers hold them is not known: {held}."
    consumers = held["consumers"]
    if not consumers:
        return "No consumer is connected."
    known = [shown for shown in consumers if shown["entries"] is not None]
    if len(known) < len(consumers):
        return f"How many of them its {plural(len(consumers), 'consumer')} hold is not known."
    busiest = known[0]
    sent = sum(shown["entries"] for shown in known)
    if not sent:
        return f"None of them was sent to its {plural(len(consumers), 'consumer')}."
    return (
        f"{plural(sent, 'entry', 'entries')} were sent to its {plural(len(consumers), 'consumer')}, most to"
        f" {busiest['name']} ({busiest['entries']:,})."
    )


def consumers_table(
    backlogs: Sequence[StoredBacklog], held: Mapping[int, Held]
) -> Iterator[dict[str, Any]]:
    """Yield a table of the consumers of the subscriptions that were asked for. What is not known is null, with the
    reason."""
    columns = [
        ("topic", "Topic", "string"),
        ("subscription", "Subscription", "string"),
        ("consumer", "Consumer", "string"),
        ("address", "Address", "string"),
        ("entries", "Entries it has not acknowledged", "integer"),
        ("messages", "Messages of them", "integer"),
        ("first", "First of them", "string"),
        ("oldest", "Its publish time", "time"),
        ("redelivered", "Sent again", "integer"),
        ("connected", "Connected since", "time"),
        ("known", "Known", "string"),
    ]
    rows: list[list[Any]] = []
    for number, answer in held.items():
        place = [backlogs[number].topic, backlogs[number].subscription]
        if isinstance(answer, str):
            rows.append([*place, *[None] * 8, f"not known: {answer}"])
        elif not answer["consumers"]:
            rows.append([*place, None, None, 0, 0, *[None] * 4, "no consumer is connected"])
        else:
            rows += [[*place, *_row(shown)] for shown in answer["consumers"][:CONSUMERS_MAX]]
    if rows:
        yield table("consumers", "Sent and not acknowledged, by consumer", columns, rows)


def _row(shown: Mapping[str, Any]) -> list[Any]:
    oldest = shown["oldest"]
    return [
        shown["name"],
        shown["address"].removeprefix("/"),
        shown["entries"],
        shown["messages"],
        oldest and f"{oldest[0]}:{oldest[1]}",
        shown["oldest_ms"],
        shown["redelivered"],
        shown["connected_ms"],
        "yes" if shown["entries"] is not None else "not known: it reads the compacted topic",
    ]
