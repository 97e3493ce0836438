"""The connector of PostgreSQL."""

from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.postgres.rows_sink import SETTINGS, RowsSink

POSTGRES = BuiltIn(
    "postgres",
    "Writes messages as rows of a PostgreSQL table",
    sink=ConnectorEnd(
        RowsSink,
        SETTINGS,
        "effectively once",
        "Modes messages, upsert (in order) and insert with an id column; insert without one may insert a message "
        "twice after a failure.",
    ),
    needs="connectors",
)
