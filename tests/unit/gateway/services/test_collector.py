"""When the console's numbers are read anew."""

import pytest

from engine.base.names import TopicName
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.tenancy import topics as metadata
from gateway.services import catalog
from gateway.services.collector import Collector
from gateway.services.engine_link import EngineLink


def listed(collector: Collector) -> list[str]:
    assert collector.latest is not None
    return [row["topic"] for row in collector.latest.rows]


def a_round(engine: EngineLink, collector: Collector) -> None:
    engine.run(collector._round)


def create(engine: EngineLink, local: str) -> None:
    name = TopicName.parse(f"persistent://public/default/{local}")
    engine.run(lambda it: metadata.create_partitioned(it.store, name, 1))


def test_a_list_of_topics_that_could_not_be_read_is_read_in_the_next_round(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector(engine)
    a_round(engine, collector)
    create(engine, "new")
    a_round(engine, collector)
    assert listed(collector) == [], "read a moment ago, and nobody said that it changed"

    async def silent(store: MetadataStore) -> dict[str, int]:
        raise StoreUnavailableError("children: no answer within 10 s")

    collector.refresh_catalog()
    with monkeypatch.context() as once:
        once.setattr(catalog, "topics", silent)
        with pytest.raises(StoreUnavailableError):
            a_round(engine, collector)
    a_round(engine, collector)
    assert listed(collector) == ["new"]


def test_what_is_created_while_the_list_is_read_is_found_in_the_next_round(
    engine: EngineLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector(engine)
    real = catalog.topics

    async def late(store: MetadataStore) -> dict[str, int]:
        found = await real(store)
        name = TopicName.parse("persistent://public/default/late")
        await metadata.create_partitioned(store, name, 1)
        collector.refresh_catalog()
        return found

    with monkeypatch.context() as once:
        once.setattr(catalog, "topics", late)
        a_round(engine, collector)
    assert listed(collector) == []
    a_round(engine, collector)
    assert listed(collector) == ["late"]
