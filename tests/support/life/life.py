"""An instance with its scripted life: two brokers, three bookies, five tenants, 217 topics and their users."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.instance import ROOT, Instance
from tests.support.life.cast import (
    CLUSTER,
    KEPT,
    NAMESPACES,
    PARTITIONS,
    STORIES,
    UNACKED_MAX,
    Role,
    Story,
    small_topics,
)
from tests.support.life.described import DESCRIBED

FOREVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
READY_S = 180.0
ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Truth:
    """Messages of a topic that its users gave to the client, that the broker confirmed, and that were acknowledged."""

    tried: int
    confirmed: int
    acknowledged: int


class Life:
    """A running instance, its actors and their counts."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._actors: subprocess.Popen[str] | None = None

    def begin(self) -> None:
        """Create tenants and namespaces, start the actors, and wait until every backlog is as its story demands."""
        self._settle()
        self._actors = subprocess.Popen(
            [sys.executable, "-m", "tests.support.life.actors", self.instance.url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._read(READY_S) != {"ready": True}:
            raise RuntimeError(f"the actors did not begin:\n{self.instance.logs()}")
        for story in STORIES:
            if story.role is Role.AT_REST:
                self._admin("PUT", f"{admin_path(story)}/unload")
        # No subscription needs these messages: brokers that start again would trim them.
        self._admin("POST", f"{admin_path(DESCRIBED)}/retention", FOREVER)

    def _settle(self) -> None:
        for tenant, namespaces in NAMESPACES.items():
            body = {"allowedClusters": [CLUSTER], "adminRoles": []}
            self._admin("PUT", f"/admin/v2/tenants/{quote(tenant)}", body)
            for namespace in namespaces:
                self._admin("PUT", f"/admin/v2/namespaces/{tenant}/{namespace}")
        self._admin("POST", "/admin/v2/namespaces/telemetry/sensors/retention", FOREVER)
        for story in STORIES:
            if story.partitions:
                self._admin("PUT", f"{admin_path(story)}/partitions", PARTITIONS)

    def _admin(self, method: str, path: str, body: Any = None) -> None:
        status, answer = self.instance.rest(method, path, body)
        if status not in (200, 204):
            raise RuntimeError(f"{method} {path}: {status} {answer}")

    def _read(self, timeout_s: float) -> dict[str, Any]:
        assert self._actors is not None
        assert self._actors.stdout is not None
        patience = threading.Timer(timeout_s, self._actors.kill)
        patience.start()
        try:
            line = self._actors.stdout.readline()
        finally:
            patience.cancel()
        answer: dict[str, Any] = json.loads(line) if line else {}
        if "surprise" in answer:
            raise RuntimeError(answer["surprise"])
        return answer

    def truth(self) -> dict[str, Truth]:
        """Return the present counts by full topic name."""
        assert self._actors is not None
        assert self._actors.stdin is not None
        self._actors.stdin.write("\n")
        self._actors.stdin.flush()
        answer = self._read(ANSWER_S)
        if "counts" not in answer:
            raise RuntimeError(f"the actors ended with {self._actors.poll()}")
        return {name: Truth(*counts) for name, counts in answer["counts"].items()}

    def waiting(self) -> dict[str, int]:
        """Return the least backlog from now on, by full topic name, of the topics whose consumers never acknowledge."""
        now = self.truth()
        return {s.topic: now[s.topic].confirmed for s in STORIES if s.role in KEPT}

    def send_signal(self, part: str, number: signal.Signals) -> None:
        """Send a signal to a part of the instance and to the processes that it started, such as the worker's pool."""
        os.killpg(self.instance.child(part)["pid"], number)

    @contextmanager
    def frozen(self, part: str) -> Iterator[None]:
        """Stop ``part`` for the length of the block: it answers no request."""
        pid = self.instance.child(part)["pid"]
        os.killpg(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(pid, signal.SIGCONT)

    @contextmanager
    def without(self, part: str) -> Iterator[None]:
        """Kill ``part``; start it again at the end of the block."""
        self.send_signal(part, signal.SIGKILL)
        self.instance.control("stop", part)
        try:
            yield
        finally:
            self.instance.control("start", part)

    def end(self) -> None:
        """End the actors. The instance belongs to its starter."""
        if self._actors is None:
            return
        assert self._actors.stdin is not None
        assert self._actors.stdout is not None
        self._actors.stdin.close()
        try:
            self._actors.wait(30)
        except subprocess.TimeoutExpired:
            self._actors.kill()
            self._actors.wait(10)
        self._actors.stdout.close()


def admin_path(story: Story) -> str:
    """Return the path ``/admin/v2/persistent/…`` of a story's topic."""
    domain, _, rest = story.topic.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    return f"/admin/v2/{domain}/{tenant}/{namespace}/{quote(local, safe='')}"


def console_path(story: Story, tab: str = "overview") -> str:
    """Return the path of the topic's page in the console."""
    domain, _, rest = story.topic.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    search = "" if domain == "persistent" else f"?domain={domain}"
    return f"/c/{CLUSTER}/t/{tenant}/{namespace}/{quote(local, safe='')}/{tab}{search}"


def everyone() -> list[Story]:
    """Return all stories."""
    return [*STORIES, *small_topics()]


@contextmanager
def living_instance(data_dir: Path, **options: Any) -> Iterator[Life]:
    """Run an instance and its life for the length of a ``with`` block."""
    limit = {"MAGNETAR_MAX_UNACKED_MESSAGES_PER_CONSUMER": str(UNACKED_MAX)}
    instance = Instance(data_dir, bookies=3, brokers=2, **limit, **options)
    instance.start()
    life = Life(instance)
    try:
        life.begin()
        yield life
    finally:
        life.end()
        instance.stop()
