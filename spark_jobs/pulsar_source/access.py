"""Means of access to metadata stores, bookies and brokers: TLS files, users, time-outs.

They are those of the environment of the process that connects, which is the driver or a task, and not options: these
are part of Spark's plans, which its log and its pages show.
"""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.base.settings import Program
from engine.client.settings import BrokerClientSettings
from engine.ledger.settings import LedgerSettings
from engine.metadata.settings import MetadataSettings


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Settings of analyses."""

    metadata: MetadataSettings
    ledger: LedgerSettings
    clients: BrokerClientSettings


PROGRAM = Program("analyses", AccessSettings)


@cache
def access_settings() -> AccessSettings:
    """Return the settings of this process. Raises SettingsError, MisuseError."""
    return PROGRAM.load(os.environ, Path.cwd())
