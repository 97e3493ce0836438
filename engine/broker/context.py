"""What every part of the data path may read: settings, time, chance and the broker's name. Given to constructors."""

import asyncio
from dataclasses import dataclass, field

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.broker.ports import BrokerIdentity
from engine.broker.settings import DataPathSettings

COMPACTIONS_MAX = 2
"""At a time: each holds the keys of its topic."""


@dataclass(slots=True)
class Context:
    """One per broker. ``settings`` are those in force: some of them change while the broker runs."""

    settings: DataPathSettings
    clock: Clock
    entropy: Entropy
    identity: BrokerIdentity
    compactions: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(COMPACTIONS_MAX)
    )
    """Held by each topic that is being compacted."""
