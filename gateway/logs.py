"""The gateway's log lines look like the engine's: UTC time with milliseconds, level, logger, message."""

import logging
import time


class LineFormatter(logging.Formatter):
    """One line per record, time in UTC."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__(
            "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"
        )
