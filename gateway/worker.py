"""The worker's process, ``python -m gateway.worker``: Celery with the tasks of analyses."""

import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from engine.base import log as logs
from gateway.standalone.programs import SPARK_REMEDY

ARGUMENTS = (
    *("--quiet", "-A", "gateway", "worker", "--concurrency", "2", "--loglevel", "WARNING"),
    *("--without-mingle", "--without-gossip"),
)
"""Arguments of Celery's command line. Other workers' events are of no use to a worker."""


def main(arguments: Sequence[str]) -> None:
    """Run a worker with further ``arguments`` of Celery's, and exit with its status; EX_CONFIG without Celery.

    Without Celery the help is a line of usage and what to install.
    """
    if find_spec("celery") is None:
        if {"-h", "--help"} & set(arguments):  # Celery's help of its options needs Celery.
            print(f"usage: magnetar worker [OPTIONS OF CELERY]\n\nIt needs Spark: {SPARK_REMEDY}")
            return
        logs.configure()
        logging.getLogger("worker").critical(
            "cannot start: Spark is not installed. Mend it with: %s", SPARK_REMEDY
        )
        sys.exit(os.EX_CONFIG)  # The supervisor does not restart a process that ends with it.
    # Before Celery's command line, which would import a folder ``gateway`` of the working directory.
    from celery.bin.celery import celery

    import gateway.celery  # noqa: F401

    celery.main(
        args=[*ARGUMENTS, *arguments], prog_name="magnetar worker", auto_envvar_prefix="CELERY"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
