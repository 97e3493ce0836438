"""Dead letters: groups of messages that consumers gave up, by reason, origin and shape."""

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import LAST_ENTRIES, NAMESPACE, TOPIC, parameters_of, whole

DEAD_LETTERS = Analysis(
    name="dead-letters",
    title="Dead letters",
    question="Why are messages dead letters, where do they come from, and which can be sent again together?",
    targets=(AnalysisTarget.TOPIC, AnalysisTarget.NAMESPACE),
    parameters=parameters_of(
        {
            "topic": TOPIC
            | {
                "description": "A topic of dead letters, for example persistent://public/default/orders-ship-DLQ"
            },
            "namespace": NAMESPACE
            | {
                "description": "For example public/default; its topics that end in -DLQ and -RETRY are read"
            },
            "top": whole("Groups to list", "How many groups the tables have at most", 50, 1, 1000),
            "last_entries": LAST_ENTRIES,
        }
    ),
    job=f"{__name__}.job",
)
