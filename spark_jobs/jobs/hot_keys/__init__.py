"""Hot keys: how uneven keys are, and how a Key_Shared subscription would divide them."""

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import LAST_ENTRIES, TOPIC, parameters_of, whole

HOT_KEYS = Analysis(
    name="hot-keys",
    title="Hot keys",
    question="Which keys are hot, and how many Key_Shared consumers are worth having?",
    targets=(AnalysisTarget.TOPIC,),
    parameters=parameters_of(
        {
            "topic": TOPIC,
            "top": whole(
                "Keys to list", "How many of the most frequent keys the table holds", 20, 1, 1000
            ),
            "consumers_max": whole(
                "Most consumers", "The balance is computed for 1 to this many consumers", 16, 1, 100
            ),
            "selector": {
                "type": "string",
                "title": "Division of keys",
                "description": (
                    "How brokers divide keys: consistent-hashing is their default, auto-split halves the widest range"
                ),
                "enum": ["consistent-hashing", "auto-split"],
                "default": "consistent-hashing",
            },
            "last_entries": LAST_ENTRIES,
        }
    ),
    job=f"{__name__}.job",
)
