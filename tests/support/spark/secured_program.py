"""A program of a user's own Spark that writes, reads and streams a topic: ``python -m
tests.support.spark.secured_program JSON``.

JSON has ``steps``, the options ``sink``, ``source`` and ``stream``, the topic ``copy`` of the stream, and a ``folder``.
It prints a line of JSON for each step: its seconds, and its ``result`` or ``error``. The credentials for reads are
those of the environment.
"""

import json
import sys
import time
from typing import Any

from tests.support.spark.sink_programs import session

ROWS = 100


class Steps:
    """The steps by their names. Each returns what it prints, or raises Spark's errors."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{given['folder']}",
        }
        self._spark = session("local[*]", **settings)

    def write(self) -> None:
        rows = self._spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS STRING) AS value")
        options = self._given["sink"]
        rows.write.format("pulsar").mode("append").options(**options).save()

    def read(self) -> list[int]:
        return self._values(self._given["source"])

    def _values(self, options: dict[str, str]) -> list[int]:
        rows = self._spark.read.format("pulsar").options(**options, columns="value").load()
        return sorted(int(row.value) for row in rows.collect())

    def through_brokers(self) -> list[int]:
        """Read without the bookies, from a time on, with values that a schema would decode."""
        options = {**self._given["stream"], "readFrom": "brokers", "startingTime": "1"}
        del options["commitSubscription"], options["startingOffsets"]
        columns = "value,decoded,decode_error"
        rows = self._spark.read.format("pulsar").options(**options, columns=columns).load()
        return sorted(int(row.value) for row in rows.collect())

    def stream(self) -> list[int]:
        """Copy the topic by a stream, and return what the copy has."""
        given = self._given
        loaded = self._spark.readStream.format("pulsar").options(**given["stream"]).load()
        query = (
            loaded.select("value")
            .writeStream.format("pulsar")
            .options(**given["sink"] | {"topic": given["copy"]})
            .option("checkpointLocation", f"{given['folder']}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self._values(given["source"] | {"topic": given["copy"]})

    def explain(self) -> str:
        rows = self._spark.read.format("pulsar").options(**self._given["source"]).load()
        return str(rows._jdf.queryExecution().toString())

    def conf(self) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = self._spark.sparkContext.getConf().getAll()
        return pairs


def main() -> None:
    given = json.loads(sys.argv[1])
    steps = Steps(given)
    for name in given["steps"]:
        began, line = time.monotonic(), {"step": name}
        try:
            line["result"] = getattr(steps, name)()
        except Exception as error:
            line["error"] = str(error)
        print(json.dumps(line | {"seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
