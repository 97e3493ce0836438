"""Prometheus' text format: descriptions, labels, values."""

import os
import resource
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.base import metrics
from engine.base.clock import SystemClock
from engine.base.metrics import described, labels_of, of_process


def test_a_family_is_described_and_its_unknown_values_are_left_out() -> None:
    samples = [(labels_of(a="1"), 2), (labels_of(a="2"), None), (labels_of(a="3"), 0.5)]
    assert described("n", "gauge", "What it is.", samples) == (
        '# HELP n What it is.\n# TYPE n gauge\nn{a="1"} 2\nn{a="3"} 0.5\n'
    )


def test_values_of_labels_are_escaped() -> None:
    assert labels_of(topic='a"b\\c\nd', other="plain") == 'topic="a\\"b\\\\c\\nd",other="plain"'


def of_this_process() -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(of_process(SystemClock()))
        for sample in family.samples
    }


def test_the_figures_of_the_process_are_those_of_the_system() -> None:
    figures = of_this_process()
    assert figures["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 1 << 20 < figures["process_resident_memory_bytes"] < 1 << 36
    assert 0 < figures["process_cpu_seconds_total"] <= time.process_time() + 1
    assert time.time() - 86_400 * 365 < figures["process_start_time_seconds"] <= time.time()
    opened = os.open("/dev/null", os.O_RDONLY)
    assert of_this_process()["process_open_fds"] == figures["process_open_fds"] + 1
    os.close(opened)


def test_figures_that_the_system_hides_have_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "PROC", "/nothing/self")
    assert set(of_this_process()) == {"process_cpu_seconds_total", "process_max_fds"}
