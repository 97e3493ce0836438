"""Runtimes by name."""

from pathlib import Path

import pytest

from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.processes import ProcessRuntime
from engine.functions.runtime.runtime_kinds import runtime_of
from engine.functions.runtime.threads import ThreadRuntime

APACHE = "org.apache.pulsar.functions.runtime"


@pytest.mark.parametrize("name", ["process", f"{APACHE}.process.ProcessRuntimeFactory"])
def test_processes_by_our_name_and_apaches(name: str) -> None:
    assert isinstance(runtime_of(name, Path("/x")), ProcessRuntime)


def test_threads_by_name() -> None:
    assert isinstance(runtime_of("thread", Path("/x")), ThreadRuntime)


@pytest.mark.parametrize("name", ["kubernetes", f"{APACHE}.kubernetes.KubernetesRuntimeFactory"])
def test_kubernetes_is_refused_by_name(name: str) -> None:
    with pytest.raises(InstanceError, match="runtime kubernetes is not supported"):
        runtime_of(name, Path("/x"))


def test_another_name_is_refused() -> None:
    with pytest.raises(InstanceError, match="'docker' is unknown: process or thread"):
        runtime_of("docker", Path("/x"))
