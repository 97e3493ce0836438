"""The brokers that an instance looks up its topics at."""

from engine.functions.instance.instance_client import PresentBrokers
from engine.metadata.store import StoreUnavailableError


async def test_the_brokers_of_the_start_count_where_no_others_are_known() -> None:
    brokers = PresentBrokers("pulsar://a:1,b:2", None)
    assert await brokers() == ["pulsar://a:1", "pulsar://b:2"]


async def test_each_lookup_has_the_brokers_that_there_are_then() -> None:
    present = ["pulsar://c:3", "pulsar://d:4,e:5"]

    async def ask() -> str:
        return present.pop(0)

    brokers = PresentBrokers("pulsar://a:1", ask)
    assert await brokers() == ["pulsar://c:3"]
    assert await brokers() == ["pulsar://d:4", "pulsar://e:5"]


async def test_the_last_known_brokers_stay_while_no_others_are_known() -> None:
    answers = ["pulsar://c:3", "", "pulsar://", StoreUnavailableError("gone")]

    async def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    brokers = PresentBrokers("pulsar://a:1", ask)
    assert [await brokers() for _ in range(4)] == [["pulsar://c:3"]] * 4
