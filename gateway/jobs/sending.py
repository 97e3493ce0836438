"""Messages from gateways to workers, by Celery."""

import logging
from typing import Any

from kombu.exceptions import OperationalError

from gateway.celery import app

log = logging.getLogger(__name__)


def send(task: str, arguments: tuple[Any, ...], timeout_s: float, **options: Any) -> bool:
    """Send a task to the workers; return False when Celery's broker does not take it within ``timeout_s``."""
    # A connection of its own, with time-outs: the connection on which a worker waits for messages must have none.
    limits = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "max_retries": 0}
    try:
        with app.connection_for_write(transport_options=limits) as connection:
            app.send_task(
                task, arguments, ignore_result=True, connection=connection, retry=False, **options
            )
    except (OperationalError, OSError) as error:
        log.warning("%s%s could not be sent to Celery's broker: %s", task, arguments, error)
        return False
    return True
