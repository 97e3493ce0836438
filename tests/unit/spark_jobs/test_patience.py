"""Reading with patience: a bookie that was restarted is waited for, one that stays away is told of."""

import pytest

from engine.base.slices import Slice
from engine.ledger.errors import NoSuchEntryError, ReadError
from spark_jobs.pulsar_source import patience

ANSWER = [Slice(b"ab", [0, 2], 2, ledger_id=1, first=0)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "WAITS_S", (0.0, 0.0))


class Replica:
    """Fails with ``errors`` one after another, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    async def read(self) -> list[Slice]:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return ANSWER


async def test_a_read_that_no_replica_answered_is_asked_again() -> None:
    replica = Replica(ReadError("unreachable"), ReadError("unreachable"))
    assert await patience.patiently(replica.read) == ANSWER
    assert replica.asked == 3


async def test_replicas_that_stay_away_are_told_of() -> None:
    replica = Replica(*[ReadError(str(i)) for i in range(9)])
    with pytest.raises(ReadError, match="2"):
        await patience.patiently(replica.read)
    assert replica.asked == 3


async def test_an_entry_that_does_not_exist_is_not_waited_for() -> None:
    replica = Replica(NoSuchEntryError("entry 7"))
    with pytest.raises(NoSuchEntryError):
        await patience.patiently(replica.read)
    assert replica.asked == 1
