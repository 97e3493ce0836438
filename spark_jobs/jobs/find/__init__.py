"""Find: the messages that match a key, a text, a field, a property, a producer or a time."""

from typing import Any

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import NAMESPACE, TOPIC, parameters_of, whole

HITS_MAX = 1000


def _text(title: str, description: str, length: int = 1024, **more: Any) -> dict[str, Any]:
    return {
        "type": "string",
        "title": title,
        "description": description,
        "maxLength": length,
        "default": "",
        **more,
    }


FIND = Analysis(
    name="find",
    title="Find messages",
    question="Where is the message with this key, text, field, property or time?",
    targets=(AnalysisTarget.TOPIC, AnalysisTarget.NAMESPACE),
    parameters=parameters_of(
        {
            "topic": TOPIC,
            "namespace": NAMESPACE,
            "key": _text("Key", "The whole key"),
            "text": _text("Text", "Part of the value, in upper and lower case as written"),
            "path": _text(
                "JSON path",
                "A field of values in JSON, for example $.order.items[0].id; it must be present",
            ),
            "equals": _text("Value at the path", "What the field must be, as text; empty for any"),
            "property": _text("Property", "Its name, or name=value"),
            "producer": _text("Producer", "The whole name"),
            "id": _text(
                "Message id",
                "ledger:entry, or ledger:entry:index within a batch",
                pattern=r"^(\d+:\d+(:-?\d+)?)?$",
            ),
            "since": _text(
                "Published since",
                "For example 2026-01-31T08:00:00Z, or milliseconds since 1970",
                40,
            ),
            "until": _text("Published before", "As above; this time itself is not included", 40),
            "order": {
                "type": "string",
                "title": "Order",
                "description": "Which messages are returned first",
                "enum": ["newest", "oldest"],
                "default": "newest",
            },
            "limit": whole("Messages to find", "The search stops after so many", 100, 1, HITS_MAX),
            "after": _text(
                "Continue after",
                "The position at which an earlier search with the same filters stopped",
                1 << 20,
            ),
        }
    ),
    job=f"{__name__}.job",
)
