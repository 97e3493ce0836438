"""What the dispatch core asks of a strategy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from engine.base.slices import View
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.redelivery import Lane, ReplayQueue, SlotsOf


class Chooser(Protocol):
    """Who gets which entries. ``waiting``: positions to be sent (again), of which some have to wait."""

    waiting: ReplayQueue

    @property
    def slots_of(self) -> SlotsOf | None:
        """Where entries go by their key."""
        ...

    @property
    def binds(self) -> bool:
        """Whether entries belong to one consumer and wait for it; otherwise whoever can receive gets them."""
        ...

    @property
    def drains(self) -> bool:
        """Whether ``released`` has to be told."""
        ...

    @property
    def look_ahead(self) -> int:
        """Entries that may wait before nothing new is read; 0: any number."""
        ...

    def add(self, consumer: Consumer) -> None: ...

    def remove(self, consumer: Consumer) -> None:
        """Before what it held goes to ``waiting``."""
        ...

    def conflict(self, consumer: Consumer) -> Consumer | None:
        """Who keeps ``consumer`` from joining."""
        ...

    def next(self) -> Consumer | None:
        """Whose turn it is; None when nobody can receive."""
        ...

    def lanes(self) -> Sequence[Lane]:
        """Of ``waiting``, from which something can be sent now."""
        ...

    def share(self, view: View, turn: Consumer) -> Iterable[tuple[Consumer | None, View]]:
        """Who gets which entries of ``view``; None: nobody may have them now."""
        ...

    def must_wait(self, view: View, owner: Consumer) -> bool:
        """Whether sending the one entry of ``view`` to ``owner`` now would be out of order."""
        ...

    def wait(self, view: View) -> None:
        """The entries of ``view`` go to ``waiting``."""
        ...

    def holder(self, slot: int) -> Consumer | None:
        """Who keeps what waits with this slot waiting: the one that still has messages of it, or whose it is."""
        ...

    def sent(self, consumer: Consumer, view: View) -> None:
        """The one entry of ``view``, a chunk, went to ``consumer``, which had the earlier ones: it may be another's."""
        ...

    def released(self, consumer: Consumer, slot: int) -> None:
        """``consumer`` holds one entry of ``slot`` less."""
        ...

    def recount(self) -> None:
        """What is out changed in a way that was not told entry by entry."""
        ...

    def stats(self) -> Mapping[Consumer, KeyStats]: ...
