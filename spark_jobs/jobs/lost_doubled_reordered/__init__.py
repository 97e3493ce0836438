"""Lost, doubled and reordered messages: by the sequence ids of producers, and by comparison of two topics or times."""

from typing import Any

from spark_jobs.analysis import AlsoReads, Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import (
    LAST_ENTRIES,
    SAMPLES,
    TOPIC,
    other_cluster,
    parameters_of,
    whole,
)


def _time(title: str) -> dict[str, Any]:
    return whole(title, "Milliseconds since 1970; 0 sets no bound", 0, high=2**53)


LOST_DOUBLED_REORDERED = Analysis(
    name="lost-doubled-reordered",
    title="Lost, doubled, reordered",
    question="Were messages lost, doubled or reordered, within a topic or on the way to another one?",
    targets=(AnalysisTarget.TOPIC,),
    parameters=parameters_of(
        {
            "topic": TOPIC,
            "other_topic": {
                "type": "string",
                "format": "topic",
                "title": "Compare with topic",
                "description": "The copy, for example after a migration; empty compares nothing, unless times do",
                "maxLength": 1024,
                "default": "",
            },
            "other_cluster": other_cluster(
                "In cluster", "The cluster of the topic to compare with; empty for the same one"
            ),
            "from_ms": _time("Published from"),
            "to_ms": _time("Published before"),
            "other_from_ms": _time("Compare with those published from"),
            "other_to_ms": _time("Compare with those published before"),
            "samples": SAMPLES,
            "last_entries": LAST_ENTRIES,
        }
    ),
    job=f"{__name__}.job",
    also_reads=(AlsoReads(topic="other_topic", cluster="other_cluster"),),
)
