"""Limit of topics per namespace (maxTopicsPerNamespace), which also holds while topics are being created.

Counting the stored topics and storing another are two steps, between which other tasks run. Therefore names count from
their admission, and admissions to one namespace follow each other. Brokers do not know each other's admitted names
before they are stored.
"""

from collections.abc import Callable, Collection, Sequence

from engine.base.names import NamespaceName
from engine.broker.errors import MetadataError
from engine.metadata import paths
from engine.metadata.cached import derived_children, fresh
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import turn
from engine.tenancy.topics import users_names


class TopicRoom:
    """Counts a namespace's persistent topics and partitions, stored or being created, without system topics."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._admitted: dict[NamespaceName, dict[object, Collection[str]]] = {}

    async def admit(
        self, namespace: NamespaceName, names: Collection[str], limit: int
    ) -> Callable[[], None]:
        """Count topics of these full names until the returned function is called.

        It must be called once, when they are stored or their creation failed. ``limit`` is at least 1. Raises
        MetadataError when they would exceed it, and the store's errors; nothing is counted then. Cancel-safe.
        """
        path = paths.managed_ledgers(str(namespace))
        async with turn(self._store, path):
            stored = await self._stored(path)
            taken = stored.union(*self._admitted.get(namespace, {}).values())
            new = sum(name not in taken for name in names)
            if new and len(taken) + new > limit:
                raise MetadataError("Exceed maximum number of topics in namespace.")
            key = object()
            self._admitted.setdefault(namespace, {})[key] = names

        def stop() -> None:
            admitted = self._admitted[namespace]
            del admitted[key]
            if not admitted:
                del self._admitted[namespace]

        return stop

    async def _stored(self, path: str) -> frozenset[str]:
        try:
            return await derived_children(fresh(self._store, path), path, _names)
        except NoNodeError:
            return frozenset()


def _names(parts: Sequence[str], path: str) -> frozenset[str]:
    return frozenset(users_names(parts, path))
