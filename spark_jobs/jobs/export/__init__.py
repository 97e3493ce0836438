"""Export: a topic as Parquet files, a Delta or an Iceberg table, partitioned by day, continued by later runs."""

from spark_jobs.analysis import Analysis, AnalysisTarget, PackageNeed
from spark_jobs.jobs.kit.declared import TOPIC, parameters_of, whole

EXPORT = Analysis(
    name="export",
    title="Export as a table",
    question="How do I get a topic's messages as a table that other tools read?",
    targets=(AnalysisTarget.TOPIC,),
    parameters=parameters_of(
        {
            "topic": TOPIC,
            "name": {
                "type": "string",
                "title": "Name of the table",
                "description": "A later export of the same topic and name continues where this one ended",
                "pattern": "^[A-Za-z0-9_-]{1,64}$",
                "maxLength": 64,
                "default": "table",
            },
            "format": {
                "type": "string",
                "title": "Format",
                "description": "parquet: files by day; delta, iceberg: the same as such a table",
                "enum": ["parquet", "delta", "iceberg"],
                "default": "parquet",
            },
            "decode": {
                "type": "boolean",
                "title": "Decode values",
                "description": "Add the columns decoded and decode_error: the value as JSON by the topic's schema",
                "default": False,
            },
            "follow_s": whole(
                "Follow for, s",
                "Keep exporting new messages for so many seconds after the end is reached; 0 ends there",
                0,
                0,
                30 * 86_400,
            ),
            "every_s": whole(
                "Add new messages each, s",
                "While it follows: a longer time makes fewer and larger files",
                10,
                1,
                3_600,
            ),
        }
    ),
    job=f"{__name__}.job",
    needs=(
        PackageNeed("format", "delta", "deltalake", "delta"),
        PackageNeed("format", "iceberg", "pyiceberg", "iceberg"),
    ),
)
