"""Sending of entries that were parked for the one consumer that may receive them (D6, D10)."""

from collections.abc import Callable

from engine.base.slices import View
from engine.broker.dispatch.choose.chooser import Chooser
from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.facts import facts_of
from engine.broker.dispatch.sharing.parked import Parked
from engine.broker.dispatch.source import EntrySource


class Parking:
    """Parks entries of one subscription, and sends them or queues their positions later."""

    __slots__ = ("_chooser", "_parked", "_room", "_send", "_source")

    def __init__(
        self,
        parked: Parked,
        source: EntrySource,
        chooser: Chooser,
        room: Callable[[], int],
        send: Callable[[Consumer, View, int, int], View | None],
    ) -> None:
        """``room`` and ``send`` are those of the dispatcher, which also reads ``parked``."""
        self._parked = parked
        self._source = source
        self._chooser = chooser
        self._room = room
        self._send = send

    def park(self, owner: Consumer, view: View) -> bool:
        """Keep ``view`` for its consumer without holding up the others; return False when dispatch has to stop."""
        if self._parked.has_room(view):
            self._parked.add(owner, view)
        elif self._chooser.binds:
            self._chooser.wait(view)  # only the positions are kept: the entries are read again
        else:  # a chunk that is read again could be overtaken by the next chunk of its message (D6)
            self._source.give_back(view)
            return False
        return True

    def unpark(self, now_ms: int) -> None:
        for owner in self._parked.owners:
            while owner.can_receive and self._room():
                view = self._parked.take(owner)
                if view is None:
                    break
                rest = self._send_parked(owner, view, now_ms)
                if rest is not None:
                    self._parked.put_back(owner, rest)

    def _send_parked(self, owner: Consumer, view: View, now_ms: int) -> View | None:
        """Send the entries of ``view`` that are unacknowledged and in order; return those ``owner`` has no room for."""
        due = self._source.unacknowledged(view)
        if due is None:
            return None  # acknowledged since it was parked, by a skip for example
        view = due
        # The order is checked again: since the entries were parked, older ones of their keys may have been given back.
        facts = facts_of(view.run).special.get(view.start)
        if facts is None or facts.chunk is None:
            shares = self._chooser.share(view, owner)
        else:
            shares = ((None if self._chooser.must_wait(view, owner) else owner, view),)
        rest = None
        for receiver, part in shares:
            if receiver is None:
                self._chooser.wait(part)
            else:
                rest = self._send(owner, part, part.count, now_ms)
                if facts is not None and facts.chunk is not None and rest is None:
                    owner.chunks.total += 1
                    self._chooser.sent(owner, part)
        return rest

    def unpark_all(self) -> None:
        """Queue the positions of all parked entries: their keys may belong to other consumers now."""
        for _, view in self._parked:
            self._chooser.wait(view)
        self._parked.clear()
