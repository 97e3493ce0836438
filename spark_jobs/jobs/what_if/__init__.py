"""Storage with other codecs, batches and retention, and the day on which the disk is full."""

from spark_jobs.analysis import Analysis
from spark_jobs.jobs.kit.declared import ANYWHERE, LAST_ENTRIES, PLACES, parameters_of, whole

WHAT_IF = Analysis(
    name="what-if",
    title="What if",
    question="What would another codec, batch size or retention store, and when is the disk full?",
    targets=ANYWHERE,
    parameters=parameters_of(
        {
            **PLACES,
            "disk_free_gb": whole(
                "Free disk, GB",
                "Of all bookies together, 1,000,000,000 bytes each; 0: not known",
                0,
            ),
            "samples": whole(
                "Places to sample",
                "Messages are packed again at this many places, spread evenly",
                24,
                1,
                500,
            ),
            "last_entries": LAST_ENTRIES,
        }
    ),
    job=f"{__name__}.job",
)
