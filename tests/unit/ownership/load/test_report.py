"""Load reports: those of Apache Pulsar's brokers and ours, and whatever else may be stored."""

import json

import pytest

from engine.base.names import BundleName, NamespaceName
from engine.ownership.load.report import BundleLoad, LoadReport, ResourceUsage, decode_report

BUNDLE = BundleName(NamespaceName("t", "n"), 0, 0x80000000)
APACHE = {
    "webServiceUrl": "http://127.0.0.1:18400",
    "pulsarServiceUrl": "pulsar://127.0.0.1:18450",
    "persistentTopicsEnabled": True,
    "nonPersistentTopicsEnabled": True,
    "cpu": {"usage": 111.56947921902604, "limit": 200.0},
    "memory": {"usage": 128.81404876708984, "limit": 1024.0},
    "directMemory": {"usage": 16.0, "limit": 1024.0},
    "bandwidthIn": {"usage": 0.08959701343561735, "limit": -1000.0},
    "bandwidthOut": {"usage": 0.08959701343288896, "limit": -1000.0},
    "msgThroughputIn": 0.0,
    "msgThroughputOut": 0.0,
    "msgRateIn": 0.0,
    "msgRateOut": 0.0,
    "lastUpdate": 1795256999423,
    "lastStats": {
        "pulsar/c3/127.0.0.1:18400/0x00000000_0xffffffff": {
            "msgRateIn": 0.0,
            "msgThroughputIn": 0.0,
            "msgRateOut": 0.0,
            "msgThroughputOut": 0.0,
            "consumerCount": 0,
            "producerCount": 0,
            "topics": 1,
            "cacheSize": 0,
        }
    },
    "numTopics": 1,
    "numBundles": 1,
    "numConsumers": 0,
    "numProducers": 0,
    "bundles": ["pulsar/c3/127.0.0.1:18400/0x00000000_0xffffffff"],
    "lastBundleGains": ["pulsar/c3/127.0.0.1:18400/0x00000000_0xffffffff"],
    "lastBundleLosses": [],
    "brokerVersionString": "4.0.8",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "maxResourceUsage": 0.5578473806381226,
    "loadReportType": "LocalBrokerData",
}


def decode(**fields: object) -> LoadReport:
    return decode_report("b:1", json.dumps(fields).encode())


def test_a_report_of_apache_pulsar_is_read_with_its_unknown_network() -> None:
    report = decode(**APACHE)
    assert report.usage == pytest.approx(0.5578, abs=1e-4)
    assert (report.bandwidth_in, report.bandwidth_out) == (None, None)
    assert [str(bundle) for bundle in report.owned] == APACHE["bundles"]
    assert [load.topics for load in report.bundles.values()] == [1]
    assert (report.ours, report.faults) == (False, ())


def test_a_report_that_is_written_is_read_the_same() -> None:
    load = BundleLoad(10.0, 1000.0, 30.0, 3000.0, 2, 1, 4, "persistent://t/n/hot")
    report = LoadReport(
        "b:1",
        updated_ms=5,
        cpu=ResourceUsage(40.0, 100.0),
        bandwidth_out=ResourceUsage(500.0, 1e6),
        total=load._replace(hot_topic=""),
        bundles={BUNDLE: load},
        owned=(BUNDLE,),
        owned_count=1,
        gains=(BUNDLE,),
    )
    document = {**report.document(), **report.additions(), "adminRpcUrl": "http://b:1"}
    assert decode(**document) == report
    assert list(report.document()) == [name for name in APACHE if name in report.document()]


def test_an_unknown_value_is_neither_written_nor_read_as_zero() -> None:
    written = LoadReport("b:1").document()
    assert not {"cpu", "bandwidthIn", "msgRateIn", "numTopics", "lastUpdate"} & set(written)
    report = decode(**written)
    assert (report.usage, report.total, report.updated_ms) == (None, None, None)
    assert decode(cpu={"usage": 0.0, "limit": 0.0}).usage is None


@pytest.mark.parametrize(
    "usage", [float("nan"), float("inf"), -1.0, 1e308, True, "9", None, 10**400]
)
def test_a_load_that_cannot_be_true_is_unknown(usage: object) -> None:
    report = decode(cpu={"usage": usage, "limit": 100.0})
    assert report.usage is None
    assert bool(report.faults) == (usage is not None)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b'{"cpu":1,"lastStats":[],"bundles":{},"lastUpdate":"x"}',
        b'{"lastStats":{"nonsense":{},"t/n/0x00000000_0x80000000":{"msgRateIn":NaN}}}',
    ],
)
def test_any_stored_value_is_a_report_that_knows_nothing(value: bytes) -> None:
    report = decode_report("b:1", value)
    assert (report.usage, dict(report.bundles), report.owned) == (None, {}, ())


def test_the_load_of_a_bundle_is_its_part_of_messages_and_of_bytes() -> None:
    report = LoadReport(
        "b:1",
        cpu=ResourceUsage(80.0, 100.0),
        total=BundleLoad(rate_in=100.0, bytes_in=1000.0),
        bundles={BUNDLE: BundleLoad(rate_in=50.0, bytes_in=250.0)},
    )
    assert report.share_of(BUNDLE) == pytest.approx(0.8 * (0.5 + 0.25) / 2)
    assert LoadReport("b:1", bundles=report.bundles).share_of(BUNDLE) is None
