"""Assignment of bundles: clients that were referred here by the record of an earlier run of this broker are served."""

from collections.abc import Iterable

import pytest

from engine.base.names import BundleName, NamespaceName, TopicName
from engine.broker.control.assignment import BundleAssignment
from engine.broker.errors import ServiceNotReady
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.net.listener_urls import NO_LISTENERS, Listeners, ListenerUrls
from engine.ownership.load.report import LoadReport, ResourceUsage
from engine.ownership.owner import BundleOwnership, OwnerRecord
from engine.ownership.placer import NO_SITUATION, HashPlacer, Placer, Situation
from engine.ownership.registration import BrokerRecord, BrokerRegistration
from engine.tenancy.namespaces import bootstrap, create_namespace, set_anti_affinity

TOPIC = TopicName.parse("persistent://public/default/x")
BY_HASH = HashPlacer()


async def _broker(
    server: MemoryServer,
    name: str,
    *,
    persistent: bool = True,
    non_persistent: bool = True,
    placer: Placer = BY_HASH,
    listeners: Listeners = NO_LISTENERS,
) -> BundleAssignment:
    store = server.session()
    record = BrokerRecord(
        f"{name}:8081",
        f"pulsar://{name}:6650",
        f"http://{name}:8081",
        0,
        "test",
        f"pulsar+ssl://{name}:6651",
        listeners=listeners,
        persistent=persistent,
        non_persistent=non_persistent,
    )
    await BrokerRegistration(store, record).renew()
    owner = OwnerRecord.of(record)
    return BundleAssignment(
        store, BundleOwnership(store, owner, lambda lost: None), record, "standalone", placer
    )


async def test_a_restarted_broker_serves_clients_that_its_old_record_refers() -> None:
    server = MemoryServer()
    await bootstrap(server.session(), cluster="standalone", broker_url="b", web_url="w")
    killed = await _broker(server, "one")
    assert (await killed.place(TOPIC, authoritative=True)).here
    other = await _broker(server, "two")
    again = await _broker(server, "one")
    with pytest.raises(ServiceNotReady, match="the broker do not have inner listener"):
        await other.lookup(TOPIC, authoritative=False, listener="inner")
    sent = await other.lookup(TOPIC, authoritative=False, listener="")
    assert (sent.broker_url, sent.redirect) == ("pulsar://one:6650", False)
    assert sent.broker_url_tls == "pulsar+ssl://one:6651"
    with pytest.raises(ServiceNotReady, match="not served by this instance"):
        again.check_owned(TOPIC)
    await again.resume(TOPIC)
    again.check_owned(TOPIC)
    await other.resume(TOPIC)
    with pytest.raises(ServiceNotReady, match="not served by this instance"):
        other.check_owned(TOPIC)


@pytest.mark.parametrize("of_one_kind", ["one", "two"])
async def test_a_bundle_is_placed_on_a_broker_for_the_kind_of_topic(of_one_kind: str) -> None:
    server = MemoryServer()
    await bootstrap(server.session(), cluster="standalone", broker_url="b", web_url="w")
    asked = await _broker(server, of_one_kind, non_persistent=False)
    await _broker(server, "two" if of_one_kind == "one" else "one", persistent=False)
    assert (await asked.place(TOPIC, authoritative=False)).here
    passing = TopicName.parse("non-persistent://pulsar/system/x")
    place = await asked.place(passing, authoritative=False)
    assert (place.here, place.chosen) == (False, True)
    assert place.owner.native_url != f"pulsar://{of_one_kind}:6650"


async def test_a_topic_without_a_broker_of_its_kind_is_placed_on_any_broker() -> None:
    server = MemoryServer()
    await bootstrap(server.session(), cluster="standalone", broker_url="b", web_url="w")
    only = await _broker(server, "one", persistent=False)
    assert (await only.place(TOPIC, authoritative=False)).here


async def test_any_broker_answers_with_the_addresses_of_the_listener_that_a_client_names() -> None:
    server = MemoryServer()
    await bootstrap(server.session(), cluster="standalone", broker_url="b", web_url="w")
    outer = ListenerUrls("pulsar://outside:1", "pulsar+ssl://outside:2")
    first, last = [
        await _broker(
            server, name, placer=LastPlacer(), listeners={"outer": outer} if name == "z" else {}
        )
        for name in ("a", "z")
    ]
    chosen = await first.lookup(TOPIC, authoritative=False, listener="outer")
    assert (chosen.redirect, chosen.broker_url) == (True, "pulsar://outside:1")
    for asked in (last, first):
        owner = await asked.lookup(TOPIC, authoritative=False, listener="outer")
        assert (owner.redirect, owner.broker_url) == (False, "pulsar://outside:1")
        assert owner.broker_url_tls == "pulsar+ssl://outside:2"
        inside = await asked.lookup(TOPIC, authoritative=False, listener="")
        assert inside.broker_url == "pulsar://z:6650"
        with pytest.raises(ServiceNotReady, match="the broker do not have other listener"):
            await asked.lookup(TOPIC, authoritative=False, listener="other")


class LastPlacer:
    """Placer that ranks brokers by name in descending order."""

    def order(
        self, bundle: BundleName, broker_ids: Iterable[str], situation: Situation = NO_SITUATION
    ) -> list[str]:
        return sorted(broker_ids, reverse=True)


async def test_the_placer_decides_which_broker_acquires_a_bundle() -> None:
    server = MemoryServer()
    await bootstrap(server.session(), cluster="standalone", broker_url="b", web_url="w")
    first, last = [await _broker(server, name, placer=LastPlacer()) for name in ("a", "z")]
    sent = await first.place(TOPIC, authoritative=False)
    assert (sent.chosen, sent.owner.native_url) == (True, "pulsar://z:6650")
    assert (await last.place(TOPIC, authoritative=False)).here


async def test_a_bundle_goes_to_no_broker_with_much_more_load_than_the_mean() -> None:
    server = MemoryServer()
    await bootstrap(server.session(), cluster="standalone", broker_url="b", web_url="w")
    brokers = [await _broker(server, name) for name in ("one", "two")]
    bundle = (await brokers[0]._ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    first, second = BY_HASH.order(bundle, ["one:8081", "two:8081"])
    store = server.session()
    for broker_id, usage in ((first, 90.0), (second, 10.0)):
        value, _ = await store.get(paths.broker(broker_id))
        record = BrokerRecord.decode(broker_id, value)
        load = LoadReport(broker_id, cpu=ResourceUsage(usage, 100.0))
        await store.put(paths.broker(broker_id), record.encode(load))
    places = [await broker.place(TOPIC, authoritative=False) for broker in brokers]
    assert {place.owner.http_url for place in places} == {f"http://{second}"}
    assert sum(place.here for place in places) == 1


async def test_namespaces_of_an_anti_affinity_group_are_placed_on_different_brokers() -> None:
    server = MemoryServer()
    store = server.session()
    await bootstrap(store, cluster="standalone", broker_url="b", web_url="w")
    brokers = [await _broker(server, name) for name in ("one", "two", "three", "four")]
    names = [NamespaceName("public", f"n{number}") for number in range(4)]
    for name in names:
        await create_namespace(store, name, {}, cluster="standalone")
        await set_anti_affinity(store, name, "g")
    owners: dict[NamespaceName, set[str]] = {}
    for name in names:
        for number in range(10):
            topic = TopicName.parse(f"persistent://{name}/t{number}")
            places = [await broker.place(topic, authoritative=False) for broker in brokers]
            owners.setdefault(name, set()).update(place.owner.native_url for place in places)
    assert [len(urls) for urls in owners.values()] == [1, 1, 1, 1]
    assert len(set().union(*owners.values())) == 4
