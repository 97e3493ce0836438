"""The system topics of the workers as this worker knows them: functions and assignments, followed from the start."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from engine.base.names import NamespaceName
from engine.client.client import PulsarClient
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionRecordError, parse
from engine.functions.worker.placing.known_assignments import KnownAssignments
from engine.functions.worker.placing.known_functions import KnownFunctions
from engine.functions.worker.placing.topic_log import LoggedMessage, TopicLog

log = logging.getLogger(__name__)


class SystemTopics(NamedTuple):
    """Full names of the topics that workers share."""

    coordination: str
    metadata: str
    assignments: str

    @classmethod
    def of(
        cls, namespace: NamespaceName, coordination: str, metadata: str, assignments: str
    ) -> "SystemTopics":
        """Return the topics with these local names. Raises InvalidNameError."""
        names = (coordination, metadata, assignments)
        return cls(*(str(namespace.topic(name)) for name in names))


class FollowedTopics:
    """Followers of both topics. ``on_functions`` and ``on_assignments`` are called after each change that was read."""

    def __init__(
        self,
        client: PulsarClient,
        names: SystemTopics,
        *,
        on_functions: Callable[[], None],
        on_assignments: Callable[[], None],
    ) -> None:
        self.names = names
        self.functions = KnownFunctions()
        self.assignments = KnownAssignments()
        self._on_functions = on_functions
        self._on_assignments = on_assignments
        self._logs = (
            TopicLog(client, names.metadata, self._forget_functions, self._read_requests),
            TopicLog(
                *(client, names.assignments, self._forget_assignments, self._read_assignments),
                compacted=True,
            ),
        )

    def start(self) -> None:
        for topic in self._logs:
            topic.start()

    async def caught_up(self) -> None:
        """Wait until all that is stored now is known. Raises MagnetarError; cancel-safe."""
        for topic in self._logs:
            await topic.caught_up()

    async def close(self) -> None:
        await asyncio.gather(*(topic.close() for topic in self._logs))

    def _forget_functions(self) -> None:
        self.functions = KnownFunctions()

    def _forget_assignments(self) -> None:
        self.assignments = KnownAssignments()

    def _read_requests(self, messages: list[LoggedMessage]) -> None:
        for message in messages:
            try:
                request = parse(pb.ServiceRequest, message.value)
            except FunctionRecordError as error:
                log.warning("a message of %s is skipped: %s", self.names.metadata, error)
            else:
                self.functions.apply(request, message.published_ms)
        self._on_functions()

    def _read_assignments(self, messages: list[LoggedMessage]) -> None:
        for message in messages:
            try:
                self.assignments.apply(message.key, message.value)
            except FunctionRecordError as error:
                log.warning("a message of %s is skipped: %s", self.names.assignments, error)
        self._on_assignments()
