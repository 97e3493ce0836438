"""Reads with patience: they wait for a bookie that restarts and report one that stays unavailable."""

import pytest

from engine.base.slices import Slice
from engine.ledger.errors import NoSuchEntryError, ReadError
from spark_jobs.pulsar_source import patience

ANSWER = [Slice(b"ab", [0, 2], 2, ledger_id=1, first=0)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "WAITS_S", (0.0, 0.0))


class Replica:
    """A replica that fails with ``errors`` in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    async def read(self) -> list[Slice]:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return ANSWER


async def test_a_read_that_no_replica_answered_is_repeated() -> None:
    replica = Replica(ReadError("unreachable"), ReadError("unreachable"))
    assert await patience.patiently(replica.read) == ANSWER
    assert replica.asked == 3


async def test_replicas_that_stay_unavailable_are_reported() -> None:
    replica = Replica(*[ReadError(str(i)) for i in range(9)])
    with pytest.raises(ReadError, match="2"):
        await patience.patiently(replica.read)
    assert replica.asked == 3


async def test_an_entry_that_does_not_exist_is_not_waited_for() -> None:
    replica = Replica(NoSuchEntryError("entry 7"))
    with pytest.raises(NoSuchEntryError):
        await patience.patiently(replica.read)
    assert replica.asked == 1
