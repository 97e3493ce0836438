"""Workers, brokers and bookies that are killed while functions are deployed, run, updated and restarted: results of
effectively-once processing are each input's once, and at-least-once loses none."""

import threading
import time
from collections.abc import Callable, Iterator

import pulsar
import pytest

from tests.support.functions.worker_processes import (
    FAST,
    WORKER,
    Publisher,
    backlog_of,
    contents,
    further_worker,
    repeated,
    send_form,
)
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CODE = "def process(x):\n    return x\n"
GUARANTEES = {"once": "EFFECTIVELY_ONCE", "least": "ATLEAST_ONCE"}
DELAYS_S = (0.0, 0.1, 0.4, 1.0)
"""Seconds from the begin of a call to the kill."""
BOUND_S = 180.0
"""A part that was killed is started again within seconds, on a busy machine within tens of them."""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    folder = tmp_path_factory.mktemp("killed")
    with running_instance(folder, brokers=2, **FAST) as made:
        yield made


class KilledFunctions:
    """Two functions with one input, of which each step is disturbed by a kill."""

    def __init__(self, instance: Instance, place: str, kill: Callable[[], None]) -> None:
        self.instance = instance
        self.names = {kind: f"{place}-{kind}" for kind in GUARANTEES}
        self.inside = f"persistent://{place}-in"
        self._kill = kill
        self._delays = list(DELAYS_S)

    def out(self, kind: str) -> str:
        return f"persistent://{self.names[kind]}-out"

    def config(self, kind: str, **more: object) -> dict[str, object]:
        return {
            "className": "users_function",
            "inputs": [self.inside],
            "output": self.out(kind),
            "subscriptionPosition": "Earliest",
            "processingGuarantees": GUARANTEES[kind],
            **more,
        }

    def disturbed(self, what: str, done: Callable[[str], bool]) -> None:
        """Do a step for both functions until it is done, while a part is killed."""
        delay_s = self._delays[0]
        self._delays.append(self._delays.pop(0))
        killer = threading.Timer(delay_s, self._kill)
        killer.start()
        for kind in GUARANTEES:
            until_blocking(lambda: done(kind), f"{what} of {kind}", bound_s=BOUND_S)  # noqa: B023
        killer.join()

    def create(self, kind: str) -> bool:
        name = self.names[kind]
        status, text = send_form(self.instance, "POST", name, self.config(kind), CODE)
        # A repetition of a call without an answer meets its own work.
        return status == 204 or (status == 400 and "already exists" in text)

    def update(self, kind: str, parallelism: int) -> bool:
        config = self.config(kind, parallelism=parallelism)
        status, text = send_form(self.instance, "PUT", self.names[kind], config)
        return status == 204 or (status == 400 and "contains no change" in text)

    def call(self, kind: str, verb: str) -> bool:
        try:
            status, _ = self.instance.rest(
                "POST", f"/admin/v3/functions/{self.names[kind]}/{verb}", timeout_s=60
            )
        except OSError:
            return False
        return status == 204

    def caught_up(self, kind: str) -> bool:
        return backlog_of(self.instance, self.inside, self.names[kind]) == 0


@pytest.mark.parametrize("part", ["worker", "broker", "bookie"])
def test_functions_survive_a_kill_at_every_step(
    instance: Instance, client: pulsar.Client, part: str
) -> None:
    place = f"public/killed-{part}"
    assert instance.rest("PUT", f"/admin/v2/namespaces/{place}")[0] == 204
    assert instance.rest("POST", f"/admin/v2/namespaces/{place}/deduplication", True)[0] == 204
    # What is acknowledged stays, to be compared.
    kept = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert instance.rest("POST", f"/admin/v2/namespaces/{place}/retention", kept)[0] == 204
    killed: list[str] = []
    turn = {"worker": [WORKER], "broker": ["broker-1", "broker-2"], "bookie": ["bookie-1"]}[part]

    def kill() -> None:
        name = turn[len(killed) % len(turn)]
        instance.wait_running(name)
        instance.kill(name)
        killed.append(name)

    functions = KilledFunctions(instance, f"{place}/f", kill)
    with further_worker(instance) as second:
        publisher = Publisher(client, functions.inside)
        functions.disturbed("create", functions.create)
        functions.disturbed("running", lambda kind: publisher.count > 500)
        functions.disturbed("update", lambda kind: functions.update(kind, 2))
        functions.disturbed("restart", lambda kind: functions.call(kind, "restart"))
        functions.disturbed("stop", lambda kind: functions.call(kind, "stop"))
        functions.disturbed("start", lambda kind: functions.call(kind, "start"))
        if part == "worker":
            # The other one, too: it may have all instances by now, and may lead.
            second.kill()
            functions.disturbed("update", lambda kind: functions.update(kind, 1))
            second.start_again()
        until = publisher.count + 300
        until_blocking(lambda: publisher.count > until, "more messages", bound_s=BOUND_S)
        began = time.monotonic()
        count = publisher.close()
        for kind in GUARANTEES:
            until_blocking(
                lambda: functions.caught_up(kind),  # noqa: B023
                lambda: f"{kind} to catch up since {time.monotonic() - began:.0f} s",  # noqa: B023
                bound_s=BOUND_S,
            )
        published = contents(client, functions.inside)
        assert published == list(range(count))
        assert len(killed) >= 6
        once = contents(client, functions.out("once"))
        assert repeated(once) == {}
        assert once == published
        assert set(contents(client, functions.out("least"))) == set(published)
        for kind in GUARANTEES:
            path = f"/admin/v3/functions/{functions.names[kind]}"
            assert instance.rest("DELETE", path, timeout_s=60)[0] == 204
