"""The process from which Spark forks its Python workers (``spark.python.daemon.module``).

The modules of the analyses and the sink are imported once here, before the fork. Each worker would otherwise need about
two seconds of CPU for them, half of them for pandas, which pyarrow loads at its first array.
"""

import gc

import pandas  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import engine.metadata.zookeeper  # noqa: F401
import spark_jobs.pulsar_sink.publishing  # noqa: F401
from spark_jobs.catalogue import ANALYSES

for _analysis in ANALYSES.values():
    _analysis.load()

if __name__ == "__main__":
    gc.freeze()  # workers collect garbage after every task, without the imported modules then
    manager()
