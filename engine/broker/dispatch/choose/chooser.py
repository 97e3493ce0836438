"""Interface between the dispatch core and its strategies."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from engine.base.slices import View
from engine.broker.dispatch.choose.sticky import KeyPlace, KeyStats
from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.redelivery import Lane, ReplayQueue, SlotsOf


class Chooser(Protocol):
    """Decides which consumer receives which entries. ``waiting``: positions to send or send again, in their lanes."""

    waiting: ReplayQueue

    @property
    def slots_of(self) -> SlotsOf | None:
        """Slots of a slice's entries, where entries are sent by their key; None elsewhere."""
        ...

    @property
    def binds(self) -> bool:
        """True when each entry belongs to one consumer and waits for it; otherwise any consumer may receive it."""
        ...

    @property
    def drains(self) -> bool:
        """True when ``released`` has to be called."""
        ...

    @property
    def look_ahead(self) -> int:
        """Number of waiting entries at which no new ones are read; 0: no limit."""
        ...

    def add(self, consumer: Consumer) -> None: ...

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. Called before its unacknowledged entries are added to ``waiting``."""
        ...

    def conflict(self, consumer: Consumer) -> Consumer | None:
        """Return the consumer that keeps ``consumer`` from joining; None without one."""
        ...

    def next(self) -> Consumer | None:
        """Return the consumer whose turn it is; None when none can receive."""
        ...

    def lanes(self) -> Sequence[Lane]:
        """Return the lanes of ``waiting`` from which entries can be sent now."""
        ...

    def share(self, view: View, turn: Consumer) -> Iterable[tuple[Consumer | None, View]]:
        """Return the parts of ``view`` and their consumers; None for entries that no consumer may receive now."""
        ...

    def must_wait(self, view: View, owner: Consumer) -> bool:
        """Return whether sending the one entry of ``view`` to ``owner`` now would break the order of its key."""
        ...

    def wait(self, view: View) -> None:
        """Add the entries of ``view`` to ``waiting``."""
        ...

    def holder(self, slot: int) -> Consumer | None:
        """Return the consumer that entries of this slot wait for: the former owner while it drains, else the owner."""
        ...

    def sent(self, consumer: Consumer, view: View) -> None:
        """Note that ``consumer`` was sent the one entry of ``view``, a later chunk, whose key may have moved away."""
        ...

    def released(self, consumer: Consumer, slot: int) -> None:
        """Note that ``consumer`` has one unacknowledged entry of ``slot`` less."""
        ...

    def recount(self) -> None:
        """Count the unacknowledged entries again, after a change that ``released`` did not report."""
        ...

    def key_place(self, key: bytes) -> KeyPlace | None:
        """Return where a key belongs; None where any consumer may receive it."""
        ...

    def stats(self) -> Mapping[Consumer, KeyStats]: ...
