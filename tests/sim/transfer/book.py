"""Transactions of a run as its clients know them, and the checks of the messages that they see."""

from dataclasses import dataclass, field
from enum import Enum

from engine.broker.transactions.txn_id import TxnId
from tests.sim.topics.observer import Observer


class Outcome(Enum):
    """Outcome of a transaction as its client knows it."""

    OPEN = "open"
    """No commit was requested: nothing of it may be seen."""
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """A commit was requested, and the answer is not known."""
    COMMITTED = "committed"


@dataclass
class Transfer:
    """A transaction: it takes coins from accounts and puts them into others, each with the next version."""

    outcome: Outcome = Outcome.OPEN
    coins: list[tuple[int, int]] = field(default_factory=list)
    """Coins and versions that it publishes."""


class Book:
    """The transactions of a run. A coin is one message at a time: its versions are a chain, by any client."""

    def __init__(self, observer: Observer, coins: int) -> None:
        self.observer = observer
        self.coins = coins
        self.transfers: dict[TxnId, Transfer] = {}
        self.seen: dict[tuple[int, int], dict[tuple[str, tuple[int, int]], TxnId | None]] = {}
        """Places and transactions at which readers saw each coin and version."""
        self.refused = 0
        """Acknowledgements that were refused because of a conflict."""

    def begin(self, txn: TxnId) -> Transfer:
        """Note a transaction that began. Its id must be new."""
        if txn in self.transfers:
            self.observer.wrong(f"transfer: the id {txn} was given out twice")
        made = self.transfers[txn] = Transfer()
        return made

    def look(self, who: str, txn: TxnId | None) -> None:
        """Check that a message of this transaction may be seen now."""
        if txn is None:
            return
        known = self.transfers.get(txn)
        outcome = Outcome.OPEN if known is None else known.outcome
        if outcome in (Outcome.OPEN, Outcome.ABORTED):
            self.observer.wrong(
                f"transfer: {who} sees a message of {txn}, which is {outcome.value}"
            )

    def note(self, topic: str, place: tuple[int, int], content: bytes) -> None:
        """Note a message that the reader of ``topic`` received, at least once."""
        coin, version, txn = parse(content)
        self.look(f"the reader of {topic}", txn)
        self.seen.setdefault((coin, version), {})[topic, place] = txn

    def missing(self) -> list[str]:
        """Return what was committed and not seen by the readers."""
        return [
            f"{coin}:{version} of {txn}"
            for txn, transfer in self.transfers.items()
            if transfer.outcome is Outcome.COMMITTED
            for coin, version in transfer.coins
            if (coin, version) not in self.seen
        ]

    def check(self, live: dict[int, list[int]]) -> list[str]:
        """Return the violations. ``live``: versions by coin that are not acknowledged at the end."""
        wrong = [f"{text} is lost" for text in self.missing()]
        for (coin, version), places in self.seen.items():
            if len(places) > 1:
                wrong.append(f"{coin}:{version} is there {len(places)} times: {places}")
        for txn, transfer in self.transfers.items():
            visible = [at for at in transfer.coins if txn in self.seen.get(at, {}).values()]
            if visible and len(visible) < len(transfer.coins):
                wrong.append(f"{txn} is visible in part: {visible} of {transfer.coins}")
            if visible and transfer.outcome in (Outcome.OPEN, Outcome.ABORTED):
                wrong.append(f"{txn} is {transfer.outcome.value} and visible: {visible}")
        for coin in range(self.coins):
            versions = sorted(version for other, version in self.seen if other == coin)
            if versions != list(range(len(versions))):
                wrong.append(f"coin {coin} has the versions {versions}")
            if live.get(coin, []) != versions[-1:]:
                wrong.append(
                    f"coin {coin} is {live.get(coin, [])}, its last version is {versions[-1:]}"
                )
        return [f"transfer: {text}" for text in wrong]


def content_of(coin: int, version: int, txn: TxnId | None) -> bytes:
    """Return the content of a message."""
    return b"%d:%d:%s" % (coin, version, b"" if txn is None else b"%d.%d" % txn)


def parse(content: bytes) -> tuple[int, int, TxnId | None]:
    """Return the coin, the version and the transaction of a message."""
    coin, version, named = content.split(b":")
    if not named:
        return int(coin), int(version), None
    most, least = named.split(b".")
    return int(coin), int(version), TxnId(int(most), int(least))
