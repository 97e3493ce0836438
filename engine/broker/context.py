"""What every part of the data path may read: settings, time, chance and the broker's name. Given to constructors."""

from dataclasses import dataclass

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.broker.ports import BrokerIdentity
from engine.broker.settings import DataPathSettings


@dataclass(frozen=True, slots=True)
class Context:
    """One per broker."""

    settings: DataPathSettings
    clock: Clock
    entropy: Entropy
    identity: BrokerIdentity
