"""Topic profile: number, size, rate and origin of messages, and the effect of batching and compression."""

from spark_jobs.analysis import Analysis, AnalysisTarget

TOPIC_PROFILE = Analysis(
    name="topic-profile",
    title="Topic profile",
    question=(
        "How many messages does the topic hold, how large are they, how does their rate change, which keys and"
        " producers send most, and what do batching and compression save?"
    ),
    targets=(AnalysisTarget.TOPIC,),
    parameters={
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
    job=f"{__name__}.job",
)
