"""Families of tiered storage have Pulsar's names, by topic or summed by namespace."""

from engine.broker.administration.tiers.offloader_metrics import offloader_families
from engine.offload.meters import Meters


def page(*, topics: bool) -> str:
    first, second = Meters(), Meters()
    first.moved_bytes, first.read_bytes, first.deleted = 100, 50, 3
    second.read_bytes, second.write_errors, second.move_errors = 7, 1, 2
    first.data_reads.add(0.25)
    meters = {"t/n/persistent/a%2Fb": first, "t/n/persistent/c": second}
    return b"".join(offloader_families(meters, "us", topics=topics, orphans=4)).decode()


def test_counters_are_those_of_each_topic() -> None:
    text = page(topics=True)
    about = 'cluster="us",namespace="t/n",topic="persistent://t/n/a/b"'
    assert f"brk_ledgeroffloader_read_bytes{{{about}}} 50" in text
    assert f"brk_ledgeroffloader_offload_bytes{{{about}}} 100" in text
    assert f'brk_ledgeroffloader_delete_offload_ops{{{about},status="succeed"}} 3' in text
    assert (
        f'brk_ledgeroffloader_read_offload_data_latency{{{about},quantile="0.5"}} 250000.0' in text
    )
    assert 'magnetar_orphan_objects_removed_total{cluster="us"} 4' in text


def test_without_topics_the_numbers_of_a_namespace_are_summed() -> None:
    text = page(topics=False)
    about = 'cluster="us",namespace="t/n"'
    assert f"brk_ledgeroffloader_read_bytes{{{about}}} 57" in text
    assert f"brk_ledgeroffloader_write_storage_error{{{about}}} 1" in text
    assert f"brk_ledgeroffloader_offload_error{{{about}}} 2" in text
    assert f"brk_ledgeroffloader_read_offload_data_latency_count{{{about}}} 1" in text
