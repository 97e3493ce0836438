"""Owners of ledgers, by the custom metadata that Pulsar's brokers and ours store with them. Pure."""

from collections.abc import Mapping

from engine.base.names import PERSISTENT, decode_name


def owner_of(custom: Mapping[str, bytes]) -> str:
    """Return the full name of the topic that a ledger belongs to, as its messages, a cursor or its compacted messages;
    for a schema ``schemas of NAME``, for a package its URL; empty where the metadata names none of these."""
    if topic := _text(custom, "pulsar/compactedTopic"):
        return topic
    if schema := _text(custom, "pulsar/schemaId"):
        return f"schemas of {schema}"
    if package := _text(custom, "magnetar/package"):
        return package
    parts = _text(custom, "pulsar/managed-ledger").split("/")
    if len(parts) < 4 or parts[-2] != PERSISTENT:
        return "/".join(parts)
    return f"{PERSISTENT}://{'/'.join(parts[:-2])}/{decode_name(parts[-1])}"


def _text(custom: Mapping[str, bytes], key: str) -> str:
    return custom.get(key, b"").decode(errors="replace")
