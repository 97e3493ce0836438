"""Publishers of messages that only some clusters are to have, and of messages with a schema."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.base.names import TopicName
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import ProducerSettings
from engine.wire.varints import varint
from tests.sim.publishing.workload import Publisher, PublisherPlan
from tests.sim.schemas.workload import FORMS, given
from tests.sim.topics.observer import Observer

NOWHERE_ELSE = "__local__"
"""Name of no cluster, by which clients keep a message from being replicated."""
_SCHEMA_VERSION = b"\x82\x01"
"""Tag of schema_version, field 16."""


@dataclass(frozen=True)
class GeoPublisherPlan(PublisherPlan):
    """``restricted``: the share of messages that name their clusters. ``form``: of its schema; None: it has none."""

    restricted: float = 0.0
    form: int | None = None

    @classmethod
    def draw(cls, rng: random.Random) -> "GeoPublisherPlan":
        plan = replace(PublisherPlan.draw(rng), rate=rng.uniform(1, 6))
        return cls(
            **vars(plan),
            restricted=rng.choice((0.0, 0.1, 0.5)),
            form=rng.choice((None, rng.randrange(FORMS))),
        )


class GeoPublisher(Publisher):
    """A publisher in the topic of a cluster that sends it to ``remotes``."""

    def __init__(
        self,
        observer: Observer,
        name: str,
        plan: GeoPublisherPlan,
        topic: TopicName,
        remotes: Sequence[str],
    ) -> None:
        super().__init__(observer, name, plan, topic)
        self._restricted = plan.restricted
        self._form = plan.form
        self._choices = [(remote,) for remote in remotes] + [tuple(remotes), (NOWHERE_ELSE,)]

    def settings(self) -> ProducerSettings:
        settings = super().settings()
        if self._form is None:
            return settings
        return replace(settings, schema=given(self._form, None))

    def message(self, number: int, key: str, content: bytes) -> OutgoingMessage:
        message = super().message(number, key, content)
        if self.rng.random() < self._restricted:
            message.replicate_to = self.rng.choice(self._choices)
        if self._form is not None and self.rng.random() < 0.3:
            assert self.producer is not None
            version = self.producer.schema_version
            message.extra_metadata = _SCHEMA_VERSION + varint(len(version)) + version
        return message
