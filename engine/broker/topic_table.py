"""The topics that a broker has loaded, by name, by namespace and by tenant."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from engine.base.names import NamespaceName, TopicName


class _Named(Protocol):
    """A loaded topic."""

    @property
    def name(self) -> TopicName: ...


T = TypeVar("T", bound=_Named)


class TopicTable(Generic[T]):
    """The loaded topics. The registry alone changes it; other parts ask what is loaded."""

    __slots__ = ("_by_name", "_by_namespace", "_by_tenant")

    def __init__(self) -> None:
        self._by_name: dict[str, T] = {}
        self._by_namespace: dict[NamespaceName, dict[str, T]] = {}
        """The topics of each namespace that has any."""
        self._by_tenant: dict[str, dict[NamespaceName, None]] = {}
        """The namespaces with topics of each tenant that has any."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the topics that are loaded at this moment, unordered."""
        return iter(list(self._by_name.values()))

    def get(self, full: str) -> T | None:
        """Return the topic with this full name when it is loaded, else None."""
        return self._by_name.get(full)

    def holds(self, name: TopicName) -> bool:
        """Return whether the topic is loaded."""
        return name.full in self._by_name

    def holds_namespace(self, name: NamespaceName) -> bool:
        """Return whether a topic of the namespace is loaded."""
        return name in self._by_namespace

    def holds_tenant(self, tenant: str) -> bool:
        """Return whether a topic of the tenant is loaded."""
        return tenant in self._by_tenant

    def namespaces_of(self, tenant: str) -> list[NamespaceName]:
        """Return the namespaces of a tenant with loaded topics, unordered."""
        return list(self._by_tenant.get(tenant, ()))

    def names(self) -> list[TopicName]:
        """Return the names of all topics, unordered."""
        return [topic.name for topic in self._by_name.values()]

    def sorted(self, namespace: NamespaceName | None = None) -> list[T]:
        """Return the topics sorted by name, of one namespace or of all."""
        topics = self._by_name if namespace is None else self._by_namespace.get(namespace, {})
        return [topics[name] for name in sorted(topics)]

    def add(self, topic: T) -> None:
        full, namespace = topic.name.full, topic.name.namespace
        self._by_name[full] = topic
        self._by_namespace.setdefault(namespace, {})[full] = topic
        self._by_tenant.setdefault(namespace.tenant, {})[namespace] = None

    def remove(self, topic: T) -> None:
        """Remove the topic; nothing happens when it is not in the table."""
        full, namespace = topic.name.full, topic.name.namespace
        if self._by_name.pop(full, None) is not None:
            del self._by_namespace[namespace][full]
            if not self._by_namespace[namespace]:
                del self._by_namespace[namespace]
                del self._by_tenant[namespace.tenant][namespace]
                if not self._by_tenant[namespace.tenant]:
                    del self._by_tenant[namespace.tenant]
