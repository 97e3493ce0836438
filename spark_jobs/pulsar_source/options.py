"""Options of the ``pulsar`` data source, parsed once on the driver. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.settings import SettingsError
from engine.metadata.connect import MetadataUrl

ENTRIES_PER_PARTITION = 50_000
PARTITIONS_MAX = 10_000
TOPIC_PREFIX = "persistent://"


class OptionError(ValueError):
    """An option is missing or out of range; the message names it."""


@dataclass(frozen=True, slots=True)
class Options:
    """``topic`` full name · ``metadata_url`` as brokers have it · ``entries_per_partition`` 1..10⁹ ·
    ``last_entries`` 0 (all) or how many of the newest entries to read · ``password`` of the ledgers."""

    topic: str
    metadata_url: str
    entries_per_partition: int = ENTRIES_PER_PARTITION
    last_entries: int = 0
    password: bytes = b""


def parse(options: Mapping[str, str]) -> Options:
    """Spark gives option names in any case. Raises OptionError."""
    given = {name.lower(): value for name, value in options.items()}
    topic = given.get("topic", "")
    if not topic.startswith(TOPIC_PREFIX) or topic.count("/") < 4:
        raise OptionError(
            f"option topic must be a full name, {TOPIC_PREFIX}tenant/namespace/topic, not {topic!r}"
        )
    url = given.get("metadata.url", "")
    try:
        MetadataUrl.parse(url, "option metadata.url")
    except SettingsError as error:
        raise OptionError(str(error)) from error
    return Options(
        topic=topic,
        metadata_url=url,
        entries_per_partition=_whole(given, "entriesperpartition", ENTRIES_PER_PARTITION, 1),
        last_entries=_whole(given, "lastentries", 0, 0),
        password=given.get("ledger.password", "").encode(),
    )


def _whole(given: Mapping[str, str], name: str, default: int, low: int) -> int:
    text = given.get(name, str(default))
    if not text.isdigit() or not low <= int(text) <= 1_000_000_000:
        raise OptionError(
            f"option {name} must be a whole number from {low} to 1000000000, not {text!r}"
        )
    return int(text)
