"""The model of a Key_Shared subscription: that of a Shared one, and the order of every key (D10)."""

from collections import defaultdict

from engine.base.ids import Position
from engine.broker.dispatch.choose.keys import KeyPolicy, KeyRing, ring_slot_of
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from tests.support.shared_model import Reader, SharedModel
from tests.support.shelf import EXACT

KEYS = ("a", "b", "c", "d", "e")


class KeyModel(SharedModel):
    """A Key_Shared subscription. ``key_of`` has the key of each entry. An entry with a delivery time is ordered by that
    time, not by its key. ``passed`` has what a reader held when an administrator skipped it, until the reader's client
    acknowledges it, gives all back or leaves."""

    def __init__(
        self,
        settings: DataPathSettings,
        tail_bytes: int,
        policy: KeyPolicy,
        policies: TopicPolicies = EXACT,
    ) -> None:
        super().__init__(settings, tail_bytes, policies)
        self.policy = policy
        self.key_of: dict[Position, str] = {}
        self.passed: dict[Reader, list[Position]] = defaultdict(list)
        self._settings = settings

    def append(self, entries: int, messages: int, delay_ms: int | None) -> list[Position]:
        known = len(self.key_of)
        keys = [KEYS[(known + i) * (known + 3) % len(KEYS)] for i in range(entries)]
        places = self.reading.append(entries, messages, delay_ms, keys)
        self.key_of |= zip(places, keys, strict=True)
        return places

    def _administer(self, positions: list[Position]) -> None:
        for reader in self.readers:
            self.passed[reader] += [p for p in positions if p in reader.held]
        super()._administer(positions)

    def acknowledge(self, by: Reader, positions: list[Position]) -> None:
        super().acknowledge(by, positions)
        passed = self.passed.pop(by, [])
        if passed:
            self.subscription.acknowledge(by.consumer, passed)

    def give_back(self, reader: Reader, positions: list[Position] | None) -> None:
        if positions is None:
            self.passed.pop(reader, None)
        super().give_back(reader, positions)

    def leave(self, reader: Reader) -> None:
        self.passed.pop(reader, None)
        super().leave(reader)

    async def reset(self, position: Position, left: int) -> None:
        await super().reset(position, left)
        self.passed.clear()

    def _works_on(self, other: Reader, key: str) -> bool:
        """Return whether ``other`` still has messages of ``key`` that were passed."""
        return any(self.key_of[p] == key for p in self.passed.get(other, ()))

    def check_order(self, reader: Reader, position: Position) -> None:
        assert self.policy is not None
        if self.policy.out_of_order:
            return
        key = self.key_of[position]
        for other in self.readers:
            out = [p for p in other.held if self.key_of[p] == key]
            assert other is reader or not out, f"{key} is at two at once: {position}, {out}"
            assert other is reader or not self._works_on(other, key), f"{key} was passed, not done"
        if self.at_ms[position]:
            return
        before = [p for p in self.due if p < position and self.key_of[p] == key]
        late = [p for p in before if p not in reader.held and not self.at_ms[p]]
        assert not late, f"{position} of {key} comes before {late}"

    def may_wait(self, position: Position) -> bool:
        ring: KeyRing[Reader] = KeyRing(
            self._settings.subscription_key_shared_consistent_hashing_replica_points
        )
        for reader in self.readers:
            ring.add(reader, reader.consumer.name, KeyPolicy())
        key = self.key_of[position]
        owner = ring.owner(ring_slot_of(key.encode()))
        assert owner is not None
        if owner.permits <= 0 or owner.blocked:
            return True
        held = {p for reader in self.readers for p in reader.held}
        moved = any(self.key_of[p] == key for p in held if p not in owner.held) or any(
            reader is not owner and self._works_on(reader, key) for reader in self.readers
        )
        per_consumer = self._settings.key_shared_look_ahead_msg_in_replay_threshold_per_consumer
        waiting = len([p for p in self.due if p not in held])
        return moved or 0 < per_consumer * len(self.readers) <= waiting
