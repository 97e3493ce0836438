"""The Python script that runs an analysis again as a run had it, without the gateway. Pure."""

import json
from collections.abc import Mapping
from typing import Any

_SCRIPT = '''"""{title}: run {run} of the analysis {analysis}.

Needs Spark and Magnetar (pip install "magnetar[spark]"), and a way to the metadata store and to the bookies.
SPARK_REMOTE names a Spark Connect server; without it Spark starts here. Files are written to the folder result.
"""

import json
import os
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.catalogue import ANALYSES

PARAMETERS = json.loads({parameters})
STORES = json.loads({stores})


class Progress:
    def __call__(self, stage, done, total):
        print(f"{{stage}} {{done}}/{{total}}" if total else stage, flush=True)

    def partial(self, result):
        pass


def main():
    spark = SparkSession.builder.remote(os.environ.get("SPARK_REMOTE", "local[*]")).getOrCreate()
    output = Path("result")
    output.mkdir(exist_ok=True)
    run = ANALYSES[{analysis!r}].load()
    result = run(spark, PARAMETERS, STORES, progress=Progress(), output_dir=output)
    (output / "result.json").write_text(json.dumps(result, indent=1))
    for sentence in result.get("conclusions", ()):
        print(sentence)


if __name__ == "__main__":
    main()
'''


def script_of(
    *,
    run: str,
    analysis: str,
    title: str,
    parameters: Mapping[str, Any],
    stores: Mapping[str, str],
) -> str:
    """Return the script. ``stores``: the options of the stores that it reads."""
    safe = title.replace("\\", "").replace('"', "'")
    return _SCRIPT.format(
        title=safe,
        run=run,
        analysis=analysis,
        parameters=repr(json.dumps(parameters)),
        stores=repr(json.dumps(stores)),
    )
