"""SQL: a query over topics as tables."""

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import LAST_ENTRIES, NAMESPACE, TOPIC, parameters_of, whole

ROWS_MAX = 100_000

SQL = Analysis(
    name="sql",
    title="SQL",
    question="What does a query over the messages of these topics return?",
    targets=(AnalysisTarget.TOPIC, AnalysisTarget.NAMESPACE),
    parameters=parameters_of(
        {
            "topic": TOPIC | {"description": "The table named topic; all its partitions are read"},
            "namespace": NAMESPACE
            | {
                "description": 'Each of its topics is a table with the topic\'s local name, for example "orders"'
            },
            "query": {
                "type": "string",
                "format": "sql",
                "title": "Query",
                "description": (
                    "One SELECT. Columns: those of the source pulsar, text (the value where it is UTF-8), decoded (the"
                    " value as JSON by the topic's schema)"
                ),
                "minLength": 1,
                "maxLength": 100_000,
                "default": "SELECT * FROM topic LIMIT 100",
            },
            "rows": whole("Rows", "How many rows are returned at most", 1000, 1, ROWS_MAX),
            "engine": {
                "type": "string",
                "title": "Engine",
                "description": "DuckDB is quicker for small topics, Spark reads any size; auto chooses",
                "enum": ["auto", "duckdb", "spark"],
                "default": "auto",
            },
            "timeout_s": whole(
                "Time limit, s", "After so many seconds a query in DuckDB ends", 60, 1, 600
            ),
            "last_entries": LAST_ENTRIES,
        }
    ),
    job=f"{__name__}.job",
)
