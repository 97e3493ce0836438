"""What a ``peer.Peer`` reports, in order of arrival. A run of frames is one event."""

from dataclasses import dataclass

from engine.base.errors import PeerError
from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import SendRun


@dataclass(slots=True)
class Sends:
    """SENDs of one or several producers (``run.owners``), checksums verified.

    ``command`` is set when the run is one SEND with fields beyond message count and highest sequence id (chunk, marker,
    transaction, message id), or with a highest sequence id below its sequence id.
    """

    run: SendRun
    command: pb.CommandSend | None = None


@dataclass(slots=True)
class CorruptSend:
    """A SEND whose checksum does not match; it was skipped. ``sequence_id``: the one a SEND_ERROR must carry."""

    producer_id: int
    sequence_id: int


@dataclass(slots=True)
class Acks:
    """Individual acknowledgements of whole entries by one consumer, no answer asked for."""

    consumer_id: int
    positions: list[Position]


@dataclass(slots=True)
class Command:
    """Any other command, allowed in the connection's state, its required fields present."""

    command: pb.BaseCommand


@dataclass(slots=True)
class Violation:
    """The client broke the protocol: close the connection. The last event of a peer."""

    error: PeerError


Event = Sends | CorruptSend | Acks | Command | Violation
