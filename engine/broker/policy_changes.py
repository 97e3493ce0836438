"""Changes of policies, from where they are noticed to the upkeep, which applies them to loaded topics."""

import asyncio

from engine.base.names import NamespaceName, TopicName


class PolicyChanges:
    """The namespaces, and the topics (never a partition), whose policies changed since ``take`` returned last."""

    def __init__(self) -> None:
        self._changed: dict[NamespaceName | TopicName, None] = {}
        self._any = asyncio.Event()

    def note(self, where: NamespaceName | TopicName) -> None:
        """Have the policies of all loaded topics of a namespace or a (partitioned) topic read and applied soon."""
        self._changed[where] = None
        self._any.set()

    async def take(self) -> dict[NamespaceName | TopicName, None]:
        """Wait for a change and return all, in the order in which they were noted. Cancel-safe."""
        await self._any.wait()
        self._any.clear()
        changed, self._changed = self._changed, {}
        return changed
