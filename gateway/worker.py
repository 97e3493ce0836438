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
    from celery.utils.nodenames import default_nodename, host_format

    from gateway.celery import app

    # Not by Celery's command line, whose imports would take half a second of a cold start. Other workers' events are
    # of no use to a worker.
    worker = app.Worker(
        hostname=host_format(default_nodename(given.hostname)),
        concurrency=given.concurrency,
        loglevel="WARNING",
        quiet=True,
        without_mingle=True,
        without_gossip=True,
    )
    worker.start()
    sys.exit(worker.exitcode)


if __name__ == "__main__":
    main(sys.argv[1:])
