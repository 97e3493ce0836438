"""Time in which a producer cannot publish after its broker died, with and without a restart."""

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pulsar

from tests.bench.contenders import unpacked
from tests.bench.figures import Figures
from tests.support.instance import ROOT, Instance, running_instance

LIMIT_S = 60.0


def gaps(revision: str = "") -> Figures:
    """Return the longest pause between two receipts, s, around the death of the topic's broker, one of two."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        root = unpacked(Path(folder), revision) if revision else ROOT
        with running_instance(Path(folder) / "data", brokers=2, root=root) as instance:
            comes_back = _gap(instance, stays_dead=False)
            return {
                "broker comes back, s": comes_back,
                "broker stays dead, s": _gap(instance, stays_dead=True),
            }


def _gap(instance: Instance, *, stays_dead: bool) -> float:
    """Kill the topic's broker; return seconds until the next receipt, the client's own back-off included."""
    ports = {n: instance.child(n)["ports"]["pulsar"] for n in ("broker-1", "broker-2")}
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    client = pulsar.Client(
        f"pulsar://{hosts}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    try:
        topic = f"public/default/failover-{stays_dead}"
        producer = client.create_producer(topic, send_timeout_millis=int(LIMIT_S * 1000))
        producer.send(b"first")
        status, answer = instance.rest("GET", f"/lookup/v2/topic/persistent/{topic}")
        assert status == 200, answer
        owner = next(n for n, port in ports.items() if answer["brokerUrl"].endswith(f":{port}"))
        _kill(instance, owner, stays_dead)
        began = time.perf_counter()
        producer.send(b"behind the death")
        took = time.perf_counter() - began
    finally:
        client.close()
    if stays_dead:
        instance.control("start", owner)
    instance.wait_running(owner)
    return took


def _kill(instance: Instance, name: str, stays_dead: bool) -> None:
    if not stays_dead:
        instance.control("kill", name)
        return
    pid = instance.child(name)["pid"]
    os.kill(pid, signal.SIGSTOP)  # so that the supervisor's SIGTERM does not end it in order
    stopping = threading.Thread(target=instance.control, args=("stop", name))
    stopping.start()
    time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    stopping.join()
