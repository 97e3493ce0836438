"""Two gateways behind one port: they share the work, have their own ports as well, and one may stop while the other
serves."""

import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.instance import Instance, running_instance
from tests.support.instances.history import history
from tests.support.net.notices import NoticeSocket
from tests.support.proxy.process import ProxyProcess, variables_of
from tests.support.waiting import until_blocking

NAMES = ("gateway-1", "gateway-2")


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NoticeSocket]:
    receiver = NoticeSocket(tmp_path_factory.mktemp("manager") / "notify")
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, manager: NoticeSocket) -> Iterator[Instance]:
    data_dir = tmp_path_factory.mktemp("gateways")
    with running_instance(data_dir, gateways=2, NOTIFY_SOCKET=manager.path) as running:
        for name in NAMES:
            running.wait_running(name)
        yield running


def own_port(instance: Instance, name: str) -> int:
    port: int = instance.child(name)["ports"]["http"]
    return port


def called(port: int, method: str, path: str) -> tuple[int, bytes]:
    """Send a request on a new connection; return status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def answered(instance: Instance, name: str) -> float:
    """Return the number of GET requests that this gateway answered with 200."""
    status, text = called(own_port(instance, name), "GET", "/metrics")
    assert status == 200
    match = re.search(
        rb'^magnetar_gateway_requests_total\{.*method="GET",status="200".*\} ([\d.]+)', text, re.M
    )
    return float(match[1]) if match else 0.0


def test_both_gateways_answer_on_the_shared_port(instance: Instance) -> None:
    """Send requests until both gateways answered some of them.

    The first process that wakes up accepts a connection: a busy one may accept none of forty, but not for long.
    """
    end = time.monotonic() + 60
    before = [answered(instance, name) for name in NAMES]
    requests, answered_by = 0, [0.0, 0.0]
    while min(answered_by) < 5:
        assert time.monotonic() < end, f"of {requests} requests each answered {answered_by}"
        _send_forty_at_once(instance)
        requests += 40
        answered_by = [
            answered(instance, name) - was for name, was in zip(NAMES, before, strict=True)
        ]
        assert sum(answered_by) >= requests


def _send_forty_at_once(instance: Instance) -> None:
    connections = [
        http.client.HTTPConnection("127.0.0.1", instance.ports["HTTP"], timeout=30)
        for _ in range(40)
    ]
    for connection in connections:
        connection.connect()
    for connection in connections:
        connection.request("GET", "/admin/v2/clusters")
    for connection in connections:
        assert connection.getresponse().status == 200
        connection.close()


def test_a_change_of_one_gateway_is_read_from_the_other_and_audited(instance: Instance) -> None:
    ports = [own_port(instance, name) for name in NAMES]
    for number, port in enumerate(ports):
        topic = f"/admin/v2/persistent/public/default/made-by-{number}"
        assert called(port, "PUT", topic)[0] == 204
        topics = (ports[1 - number], "GET", "/admin/v2/persistent/public/default")
        until_blocking(lambda: b"made-by-%d" % number in called(*topics)[1])  # noqa: B023
    audit = called(ports[0], "GET", "/api/v1/audit?q=made-by-")[1]
    assert all(b"made-by-%d" % number in audit for number in (0, 1))


def test_one_gateway_serves_while_the_other_is_killed_or_restarted(instance: Instance) -> None:
    port = instance.ports["HTTP"]
    for name, verb in (("gateway-1", "kill"), ("gateway-2", "stop")):
        instance.control(verb, name)
        for _ in range(50):  # on 50 connections: none is refused, none hangs
            assert called(port, "GET", "/admin/v2/clusters")[0] == 200
        if verb == "stop":
            instance.control("start", name)
        instance.wait_running(name)


def test_a_change_whose_gateway_is_killed_has_no_outcome_in_the_audit_log(
    instance: Instance,
) -> None:
    doomed, other = (own_port(instance, name) for name in NAMES)
    broker = instance.child("broker-1")["pid"]
    os.kill(broker, signal.SIGSTOP)  # the change hangs between its entry and its outcome
    try:
        with ThreadPoolExecutor(1) as pool:
            path = "/admin/v2/persistent/public/default/doomed"
            change = pool.submit(called, doomed, "PUT", path)
            until_blocking(lambda: b"doomed" in called(other, "GET", "/api/v1/audit?q=doomed")[1])
            instance.control("kill", "gateway-1")
            with pytest.raises((OSError, http.client.HTTPException)):
                change.result()
    finally:
        os.kill(broker, signal.SIGCONT)
    [row] = json.loads(called(other, "GET", "/api/v1/audit?q=doomed")[1])["rows"]
    assert (row["method"], row["target"], row["status"]) == ("PUT", path, None)
    instance.wait_running("gateway-1")


def test_history_continues_and_keeps_its_points_when_a_gateway_is_killed(
    instance: Instance,
) -> None:
    before = history(instance, 1)
    instance.control("kill", "gateway-1")
    assert history(instance, len(before) + 1)[: len(before)] == before
    instance.wait_running("gateway-1")


def test_the_port_is_not_shared_with_other_programs(instance: Instance, tmp_path: Any) -> None:
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, option, 1)
            with pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", instance.ports["HTTP"]))
    other = Instance(tmp_path, gateways=2)
    other.ports["HTTP"] = instance.ports["HTTP"]
    other.start()  # it seems healthy at once, because the other instance answers on its port
    try:
        assert other.process is not None
        assert other.process.wait(60) == 1
    finally:
        other.stop()
    assert "cannot be used: Address already in use" in other.logs()


def test_every_program_notifies_the_service_manager_when_it_is_ready_and_when_it_ends(
    instance: Instance, manager: NoticeSocket, tmp_path: Path
) -> None:
    """Runs last: it stops the instance."""
    parts = ("zookeeper", "bookie-1", "broker-1", *NAMES, "worker")
    for name in parts:
        instance.wait_running(name)
    pids = {instance.child(name)["pid"] for name in parts}
    manager.wait_for("READY=1", pids)
    proxy = ProxyProcess(tmp_path, {**variables_of(instance), "NOTIFY_SOCKET": manager.path})
    proxy.start()
    assert proxy.process is not None
    manager.wait_for("READY=1", {proxy.process.pid})
    assert proxy.stop() == 0
    instance.stop()
    manager.wait_for("STOPPING=1", {*pids, proxy.process.pid})
