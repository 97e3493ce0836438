"""Replication audit: what arrived of a topic in another cluster, how often, in which order and how late."""

from spark_jobs.analysis import AlsoReads, Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import (
    LAST_ENTRIES,
    SAMPLES,
    TOPIC,
    other_cluster,
    parameters_of,
    whole,
)

REPLICATION_AUDIT = Analysis(
    name="replication-audit",
    title="Replication audit",
    question="Did every message arrive in the other cluster, once, in order, and how late?",
    targets=(AnalysisTarget.TOPIC,),
    parameters=parameters_of(
        {
            "topic": TOPIC,
            "other_cluster": other_cluster(
                "Other cluster",
                "The cluster to compare with; empty: only what arrived here from others is judged",
            ),
            "samples": SAMPLES,
            "settle_ms": whole(
                "Leave out the last",
                "Milliseconds: messages published so shortly before the run may still be under way",
                60_000,
            ),
            "last_entries": LAST_ENTRIES,
        }
    ),
    job=f"{__name__}.job",
    also_reads=(AlsoReads(topic="topic", cluster="other_cluster"),),
)
