"""Disk not freed: what holds each ledger of a topic, a namespace, a tenant or the cluster."""

from spark_jobs.analysis import Analysis
from spark_jobs.jobs.kit.declared import ANYWHERE, PLACES, parameters_of, whole

DISK_NOT_FREED = Analysis(
    name="disk-not-freed",
    title="Disk not freed",
    question="Why is the disk not freed, and what would free it?",
    targets=ANYWHERE,
    parameters=parameters_of(
        {
            **PLACES,
            "top": whole(
                "Rows to list", "How many of the largest rows each table has", 200, 1, 1000
            ),
        }
    ),
    job=f"{__name__}.job",
)
