"""The analyses that can be launched: id, texts for users, and the JSON Schema of their form."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analysis. ``parameters_schema``: JSON Schema (draft 2020-12) of an object of string, integer or boolean
    properties."""

    id: str
    title: str
    description: str
    parameters_schema: dict[str, Any]


TOPIC_PROFILE = Analysis(
    id="topic-profile",
    title="Topic profile",
    description=(
        "Reads every message of a topic straight from the bookies and shows how many there are, how large,"
        " how their rate moves, which keys and producers send most, and what batching and compression save."
    ),
    parameters_schema={
        "type": "object",
        "properties": {
            "topic": {
                "type": "string",
                "format": "topic",
                "title": "Topic",
                "description": (
                    "For example persistent://public/default/hello, or hello for short; all partitions are read"
                ),
                "minLength": 1,
                "maxLength": 1024,
            },
            "top": {
                "type": "integer",
                "title": "Keys and producers to list",
                "description": "How many of the most frequent keys and producers the tables hold",
                "minimum": 1,
                "maximum": 1000,
                "default": 20,
            },
            "last_entries": {
                "type": "integer",
                "title": "Only the last entries",
                "description": "Read at most this many of the newest entries; 0 reads the whole topic",
                "minimum": 0,
                "maximum": 1_000_000_000,
                "default": 0,
            },
        },
        "required": ["topic"],
        "additionalProperties": False,
    },
)

ANALYSES: dict[str, Analysis] = {TOPIC_PROFILE.id: TOPIC_PROFILE}
