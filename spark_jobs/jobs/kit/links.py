"""Links of a result to the pages of the topics, subscriptions, messages, ledgers and bookies that it names. Pure."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote

from engine.base.errors import InvalidNameError
from engine.base.names import TopicName

EACH_MAX = 3
"""Links of a kind."""
_POSITION = re.compile(r"\d+:\d+(:\d+)?")
_POSITIONS = ("position", "first")
"""Columns of positions; a first sequence id, or a first entry of a ledger, is no text of this form."""


def links_of(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return links to what the tables name, in their order: of each kind the first ``EACH_MAX``.

    ``path`` is below the pages of the cluster.
    """
    kinds: dict[str, dict[str, str]] = {}
    for kind, text, path in _named(result):
        kinds.setdefault(kind, {}).setdefault(path, text)
    return [
        {"text": text, "path": path}
        for paths in kinds.values()
        for path, text in islice(paths.items(), EACH_MAX)
    ]


def _named(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, text and path of each thing that is named."""
    yield from _of_row({"topic": result["input"].get("topic")})
    for table in result["tables"]:
        names = [column["key"] for column in table["columns"]]
        for row in table["rows"]:
            yield from _of_row(dict(zip(names, row, strict=True)))


def _of_row(row: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    # A dead letter's subscription is that of the topic from which it comes.
    owner = _topic(row.get("origin") or row.get("topic"))
    if owner is not None:
        name, page = owner
        yield "topic", f"Topic {name}", f"{page}/overview"
        if subscription := row.get("subscription"):
            text = f"Subscription {subscription} of {name}"
            yield "subscription", text, f"{page}/subscriptions#{quote(str(subscription), safe='')}"
    stored = _topic(row.get("topic"))
    if stored is not None:
        name, page = stored
        for key in _POSITIONS:
            position = row.get(key)
            if isinstance(position, str) and _POSITION.fullmatch(position):
                text = f"Message {position} of {name}"
                yield "message", text, f"{page}/messages/{quote(position, safe='')}"
        if isinstance(ledger := row.get("ledger"), int):
            yield "ledger", f"Ledger {ledger} of {name}", f"{page}/messages?position={ledger}:0"
    if stored is not None and row.get("shape"):
        topic = TopicName.parse(row["topic"]).partitioned
        text = f"Redrive the dead letters of {topic.namespace}/{topic.local}"
        yield "redrive", text, f"/dead-letters?topic={quote(str(topic), safe='')}"
    if row.get("bookie"):
        yield "bookies", "Bookies", "/bookies"


def _topic(text: Any) -> tuple[str, str] | None:
    """Return the short name of a topic and the path of its page; None for what is no full name of one."""
    try:
        name = TopicName.parse(text) if isinstance(text, str) and "://" in text else None
    except InvalidNameError:
        return None
    if name is None:
        return None
    place = "/".join(quote(part, safe="") for part in (str(name.namespace), name.local))
    return f"{name.namespace}/{name.local}", f"/t/{place.replace('%2F', '/', 1)}"
