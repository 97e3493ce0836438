"""Messages that are to be delivered too far ahead are refused when they are published."""

from itertools import groupby
from typing import Protocol

from engine.broker.context import Context
from engine.broker.dispatch.facts import facts_of
from engine.broker.errors import NotAllowed
from engine.broker.ports import TopicPolicies
from engine.broker.topics.publish import Place, Publish, Stage


class DelayLimitHost(Protocol):
    """What it needs of its topic."""

    policies: TopicPolicies
    context: Context

    def arrange_stages(self) -> None: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...


class DelayLimit:
    """Of one topic; a stage of it while there is a limit."""

    __slots__ = ("_host", "_max_ms")
    place = Place.DELAY

    def __init__(self, host: DelayLimitHost) -> None:
        self._host = host
        self._max_ms = 0

    def apply(self) -> None:
        """The topic's policies may be others."""
        policies = self._host.policies
        self._max_ms = policies.delay_max_ms if policies.delays else 0
        self._host.arrange_stages()

    @property
    def wanted(self) -> list[Stage]:
        """The stages that it is now."""
        return [self] if self._max_ms else []

    def admit(self, publish: Publish) -> bool:
        special = facts_of(publish.run).special
        if not special:
            return True
        latest_ms = self._host.context.clock.wall_ms() + self._max_ms
        late = {i for i, facts in special.items() if facts.deliver_at_ms > latest_ms}
        if not late:
            return True
        owners = publish.owners or [publish.producer] * publish.run.count
        for (_, refused), those in groupby(
            range(publish.run.count), lambda i: (owners[i], i in late)
        ):
            part = publish.part(list(those))
            if refused:
                text = f"Exceeds max allowed delivery delay of {self._max_ms} milliseconds"
                part.refuse(NotAllowed(text))
            else:
                self._host.admitted(part, self)
        return False

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass
