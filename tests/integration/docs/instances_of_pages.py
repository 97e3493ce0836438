"""Instances beside which pages run, each like a new one for the page."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.instance import Instance, running_instance


class Instances:
    """Instances of the kinds that pages need, started by the first page that needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, Instance] = {}
        self._stack = ExitStack()
        self._count = 0

    def of(self, kind: str) -> Instance:
        """Return an instance of the kind. A page that stops parts of one has it for itself."""
        if kind == "cluster":
            return self._start(bookies=3, brokers=2)
        if kind not in self._started:
            self._started[kind] = self._start(secure=kind == "secure")
        if kind == "plain":
            empty(self._started[kind])
        return self._started[kind]

    def close(self) -> None:
        self._stack.close()

    def _start(self, **options: Any) -> Instance:
        self._count += 1
        folder = self._folder / str(self._count)
        return self._stack.enter_context(running_instance(folder, **options))


def empty(instance: Instance) -> None:
    """Delete the topics, namespaces and tenants that the pages before created."""
    for tenant in instance.rest("GET", "/admin/v2/tenants")[1]:
        for namespace in instance.rest("GET", f"/admin/v2/namespaces/{tenant}")[1]:
            if namespace == "public/default":
                for domain in ("persistent", "non-persistent"):
                    empty_namespace(instance, domain, namespace)
            elif tenant != "pulsar":
                instance.rest("DELETE", f"/admin/v2/namespaces/{namespace}?force=true")
        if tenant not in ("public", "pulsar"):
            instance.rest("DELETE", f"/admin/v2/tenants/{tenant}?force=true")


def empty_namespace(instance: Instance, domain: str, namespace: str) -> None:
    parted = instance.rest("GET", f"/admin/v2/{domain}/{namespace}/partitioned")[1]
    for topic in parted:
        path = topic.replace("://", "/")
        instance.rest("DELETE", f"/admin/v2/{path}/partitions?force=true&deleteSchema=true")
    for topic in instance.rest("GET", f"/admin/v2/{domain}/{namespace}")[1]:
        path = topic.replace("://", "/")
        instance.rest("DELETE", f"/admin/v2/{path}?force=true&deleteSchema=true")
