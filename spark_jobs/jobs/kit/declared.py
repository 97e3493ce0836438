"""Parts that the declarations of analyses share. Imports neither Spark nor Arrow, which the gateway does not need."""

from typing import Any

from spark_jobs.analysis import AnalysisTarget

TOPIC: dict[str, Any] = {
    "type": "string",
    "format": "topic",
    "title": "Topic",
    "description": "For example persistent://public/default/hello, or hello for short; all partitions are read",
    "minLength": 1,
    "maxLength": 1024,
}
NAMESPACE: dict[str, Any] = {
    "type": "string",
    "format": "namespace",
    "title": "Namespace",
    "description": "For example public/default; all its topics are read",
    "minLength": 1,
    "maxLength": 1024,
}
TENANT: dict[str, Any] = {
    "type": "string",
    "format": "tenant",
    "title": "Tenant",
    "description": "For example public; all topics of its namespaces are read",
    "minLength": 1,
    "maxLength": 1024,
}
ANYWHERE = (
    AnalysisTarget.TOPIC,
    AnalysisTarget.NAMESPACE,
    AnalysisTarget.TENANT,
    AnalysisTarget.CLUSTER,
)
"""The targets of analyses that read whatever is selected."""
PLACES = {"topic": TOPIC, "namespace": NAMESPACE, "tenant": TENANT}
"""The parameters that name a target of ANYWHERE."""
LAST_ENTRIES: dict[str, Any] = {
    "type": "integer",
    "title": "Only the last entries",
    "description": "Read at most this many of the newest entries of a topic or partition; 0 reads all",
    "minimum": 0,
    "maximum": 1_000_000_000,
    "default": 0,
}


def whole(
    title: str, description: str, default: int, low: int = 0, high: int = 1_000_000_000
) -> dict[str, Any]:
    """Return the schema of a whole number."""
    return {
        "type": "integer",
        "title": title,
        "description": description,
        "minimum": low,
        "maximum": high,
        "default": default,
    }


def parameters_of(properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an analysis's parameters."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def other_cluster(title: str, description: str) -> dict[str, Any]:
    """Return the schema of the name of a further cluster that is read; empty for none."""
    return {
        "type": "string",
        "title": title,
        "description": description,
        "maxLength": 256,
        "default": "",
    }


SAMPLES = whole("Samples", "How many messages of each kind are listed", 50, 1, 1000)
