"""A query in DuckDB over tables in memory, without access to files, the network and the process's variables."""

from collections.abc import Mapping
from threading import Timer

import duckdb
import pyarrow as pa

from spark_jobs.jobs.sql.queries import confined
from spark_jobs.pulsar_source.options import OptionError

MEMORY_LIMIT = "1GB"
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": MEMORY_LIMIT,
    "threads": "2",
    "temp_directory": "",
}


def run_query(
    query: str, tables: Mapping[str, pa.Table], rows: int, timeout_s: float
) -> tuple[pa.Table, str]:
    """Return at most ``rows`` rows of the query, and DuckDB's plan. Raises OptionError with DuckDB's reason."""
    connection = duckdb.connect(":memory:", config=SETTINGS)
    timer = Timer(timeout_s, connection.interrupt)
    try:
        for name, table in tables.items():
            connection.register(name, table)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        statements = connection.extract_statements(query)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise OptionError("parameter query must be one SELECT")
        timer.start()
        bounded = confined(query, rows)
        plan = str(connection.execute(f"EXPLAIN {bounded}").fetchall()[0][1])
        return connection.execute(bounded).to_arrow_table(), plan
    except duckdb.InterruptException as error:
        raise OptionError(
            f"the query took longer than {timeout_s:g} s, the parameter timeout_s"
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise OptionError(
            f"the query needs more than {MEMORY_LIMIT} of memory; set the parameter engine to spark"
        ) from error
    except duckdb.Error as error:
        raise OptionError(f"parameter query: {error}") from error
    finally:
        timer.cancel()
        connection.close()
