"""The limit of topics per namespace, held also while topics are being made (maxTopicsPerNamespace).

Counting what is stored and storing one more are two steps with waiting in between. Therefore names that are being made
count from the moment they were admitted, and admissions to one namespace follow each other. Brokers do not see each
other's names before they are stored.
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
    """Counts persistent topics and partitions of a namespace, without the system's, as stored and as being made."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._admitted: dict[NamespaceName, dict[object, Collection[str]]] = {}

    async def admit(
        self, namespace: NamespaceName, names: Collection[str], limit: int
    ) -> Callable[[], None]:
        """Count topics of these full names from now on, until what is returned is called: once, when they are stored,
        or given up. ``limit`` is 1 or more. Raises MetadataError when they would exceed it, and the store's errors;
        then nothing is counted. Cancel-safe."""
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
