"""ChangeQueue of stored records, from where they are noticed to the loop that applies them to loaded topics."""

import asyncio
from typing import Generic, TypeVar

from engine.base.names import NamespaceName, TopicName

T = TypeVar("T")


class ChangeQueue(Generic[T]):
    """Queue of what changed since ``take`` returned last; a change that is noted twice is there once."""

    def __init__(self) -> None:
        self._changed: dict[T, None] = {}
        self._any = asyncio.Event()

    def note(self, what: T) -> None:
        """Have a change applied soon."""
        self._changed[what] = None
        self._any.set()

    async def take(self) -> dict[T, None]:
        """Wait for a change and return all, in the order in which they were noted. Cancel-safe."""
        await self._any.wait()
        self._any.clear()
        changed, self._changed = self._changed, {}
        return changed


class PolicyChanges(ChangeQueue[NamespaceName | TopicName]):
    """The namespaces, and the topics (never a partition), whose policies changed."""
