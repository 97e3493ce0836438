"""The worker's process, ``python -m gateway.worker``: Celery with the tasks of analyses."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from engine.base import log as logs
from engine.base.settings import ProgramParser
from gateway.standalone.programs import SPARK_REMEDY

ARGUMENTS = (
    *("--quiet", "-A", "gateway", "worker", "--loglevel", "WARNING"),
    *("--without-mingle", "--without-gossip"),
)
"""Arguments of Celery's command line. Other workers' events are of no use to a worker."""


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = ProgramParser(prog="magnetar worker", description=__doc__)
    parser.add_argument(
        "--concurrency",
        type=int,
        choices=range(1, 65),
        metavar="N",
        default=2,
        help="analyses that run at the same time, 1 to 64 (2)",
    )
    parser.add_argument(
        "--hostname",
        help="name of this worker, where several run on a machine, such as worker2@%%h",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Run a worker and exit with Celery's status; EX_CONFIG without Celery."""
    given = _parse(arguments)
    if find_spec("celery") is None:
        logs.configure()
        logging.getLogger("worker").critical(
            "cannot start: Spark is not installed. Mend it with: %s", SPARK_REMEDY
        )
        sys.exit(os.EX_CONFIG)  # The supervisor does not restart a process that ends with it.
    # Before Celery's command line, which would import a folder ``gateway`` of the working directory.
    from celery.bin.celery import celery

    import gateway.celery  # noqa: F401

    name = ("--hostname", given.hostname) if given.hostname else ()
    celery.main(
        args=[*ARGUMENTS, "--concurrency", str(given.concurrency), *name],
        prog_name="magnetar worker",
        auto_envvar_prefix="CELERY",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
