"""The data source as Spark uses it: schema, readers that can be pickled, tasks without ranges."""

import pickle

import pytest

from spark_jobs.pulsar_source.options import COLUMNS, OptionError, parse
from spark_jobs.pulsar_source.partitions import LedgerRange, RangeGroup
from spark_jobs.pulsar_source.source import PulsarDataSource, PulsarReader
from spark_jobs.pulsar_source.streams.reader import PulsarStreamReader
from spark_jobs.pulsar_source.tasks import read_group

OPTIONS = {"topic": "x", "metadataUrl": "zk:a:1"}


def test_the_schema_has_the_named_columns_or_all() -> None:
    every = PulsarDataSource(OPTIONS).schema()
    assert every.startswith("key string, value binary, properties map<string, string>")
    assert len(every.split(",")) == len(COLUMNS) + 1
    assert (
        PulsarDataSource({**OPTIONS, "columns": "topic, key"}).schema()
        == "topic string, key string"
    )


def test_readers_are_pickled_before_they_connect() -> None:
    for reader in (
        PulsarDataSource(OPTIONS).reader(None),
        PulsarDataSource(OPTIONS).streamReader(None),
    ):
        assert type(pickle.loads(pickle.dumps(reader))) is type(reader)
    assert isinstance(PulsarDataSource(OPTIONS).streamReader(None), PulsarStreamReader)


def test_planned_ranges_are_given_and_read_as_tasks() -> None:
    reader = PulsarReader({**OPTIONS, "ranges": '[[7, 0, 9, -1, "t"], [9, 0, 4, 2, "u"]]'})
    ranges = (LedgerRange(7, 0, 9, -1, "t"), LedgerRange(9, 0, 4, 2, "u"))
    assert reader.partitions() == [RangeGroup(ranges)]
    with pytest.raises(OptionError, match="option ranges must be JSON"):
        PulsarReader({**OPTIONS, "ranges": "[[1]]"})
    nothing = PulsarReader({**OPTIONS, "ranges": "[]"}).partitions()
    assert nothing == [RangeGroup(())]
    assert list(read_group(reader._options, nothing[0])) == []


BROKERS = {"readFrom": "brokers", "service.url": "pulsar://b:1"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"readFrom": "disk"}, "option readFrom must be one of auto, bookies, brokers, not 'disk'"),
        ({"readFrom": "brokers"}, "option readFrom brokers needs option service.url"),
        ({**BROKERS, "startingSubscription": "s"}, "option startingSubscription needs the bookies"),
    ],
)
def test_where_entries_are_read_is_checked(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        PulsarDataSource({**OPTIONS, **options}).reader(None)


def test_entries_are_read_from_bookies_unless_brokers_are_named() -> None:
    assert parse(OPTIONS).read_from == "auto"
    assert parse({**OPTIONS, **BROKERS, "readFrom": "Brokers"}).read_from == "brokers"
