"""Claims of clients that their messages are of another cluster, which only replicators may make (G1)."""

from typing import Protocol

from engine.auth.judge import AllowAll
from engine.broker.context import Context
from engine.broker.errors import NotAllowed
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.limits import admit_fitting
from engine.broker.topics.publish import Publish, Stage, StagePlace
from engine.wire.batches import read_metadata
from engine.wire.geo.source_positions import SOURCE_POSITION, source_position
from engine.wire.kernels import SendRun

_PROPERTY = SOURCE_POSITION.encode()


class ClaimedHost(Protocol):
    """Parts of a topic that the stage uses."""

    @property
    def context(self) -> Context: ...

    @property
    def deduplication(self) -> Deduplication: ...

    def admitted(self, publish: Publish, by: Stage) -> None: ...


class OriginClaims:
    """A stage that refuses messages of ordinary producers that name another cluster and a position there.

    The next load would take the entries of that cluster up to that position for stored, and refuse them as repetitions.
    Without authorization any client may be a replicator, so nothing is refused.
    """

    __slots__ = ("_host",)
    place = StagePlace.ORIGIN

    def __init__(self, host: ClaimedHost) -> None:
        self._host = host

    @property
    def wanted(self) -> list[Stage]:
        """The stage itself while positions of other clusters are judged and rights are, else none."""
        judged = bool(self._host.deduplication.wanted)
        return [self] if judged and not isinstance(self._host.context.judge, AllowAll) else []

    def admit(self, publish: Publish) -> bool:
        run = publish.run
        if publish.producer.origin or run.buf.find(_PROPERTY, run.spans[0], run.spans[-1]) < 0:
            return True
        fits = [not _claims(run, i) for i in range(run.count)]
        refusal = NotAllowed("Only the replicator of another cluster sends messages of its topics")
        return admit_fitting(self._host, self, publish, fits, refusal)

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        pass

    def failed(self, publish: Publish, start: int) -> None:
        pass


def _claims(run: SendRun, i: int) -> bool:
    """Return whether an entry names a cluster and a position there. The position alone claims nothing: clients copy the
    properties of messages that they received, as dead letters do."""
    metadata = read_metadata(run.entry(i))
    return (
        metadata is not None
        and bool(metadata.replicated_from)
        and source_position(metadata) is not None
    )
