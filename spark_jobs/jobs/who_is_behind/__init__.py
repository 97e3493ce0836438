"""Backlog of subscriptions by age, key, size and consumer, and holes in their acknowledgements."""

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import PLACES, parameters_of, whole

WHO_IS_BEHIND = Analysis(
    name="who-is-behind",
    title="Who is behind",
    question="Which subscriptions are behind, since when, and with which messages?",
    targets=(AnalysisTarget.TOPIC, AnalysisTarget.NAMESPACE, AnalysisTarget.TENANT),
    parameters=parameters_of(
        {
            **PLACES,
            "subscription": {
                "type": "string",
                "title": "Subscription",
                "description": "Only subscriptions of this name; empty for all",
                "maxLength": 1024,
                "default": "",
            },
            "top": whole("Rows to list", "How many rows each table has at most", 50, 1, 1000),
            "read": {
                "type": "boolean",
                "title": "Read the backlog",
                "description": "Without it there are no ages, keys and numbers of messages",
                "default": True,
            },
        }
    ),
    job=f"{__name__}.job",
    asks_holders=True,
)
