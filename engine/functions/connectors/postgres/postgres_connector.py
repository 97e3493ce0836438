"""The connector of PostgreSQL."""

from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.postgres import changes_source, rows_sink

POSTGRES = BuiltIn(
    "postgres",
    "Reads changes of PostgreSQL tables, and writes messages as rows",
    source=ConnectorEnd(
        changes_source.ChangesSource,
        changes_source.SETTINGS,
        "effectively once",
        "Each change is published once, in the order of the log, where the output topic deduplicates "
        "(EFFECTIVELY_ONCE); rows of a snapshot that was interrupted are published again.",
        several=False,
    ),
    sink=ConnectorEnd(
        rows_sink.RowsSink,
        rows_sink.SETTINGS,
        "effectively once",
        "Modes messages, upsert (in order) and insert with an id column; insert without one may insert a message "
        "twice after a failure.",
    ),
    needs="connectors",
)
