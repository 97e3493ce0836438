"""The process that Spark forks its Python workers from (``spark.python.daemon.module``).

What an analysis needs is imported once here, before the fork: each worker would take about two seconds of CPU for it,
half of them for pandas, which pyarrow loads at its first array.
"""

import gc

import pandas  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import engine.metadata.zookeeper  # noqa: F401
import spark_jobs.jobs.topic_profile  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # workers collect garbage after every task: not among what was imported here
    manager()
