"""Transition tables of a connection: the commands that either side may send, and the state after each of them. Pure.

A command outside the tables ends the connection, as in Pulsar. CONNECT is sent first and once. A client never sends
commands that only brokers send, nor the reverse. All other commands are allowed only after CONNECTED.
"""

from enum import Enum, IntEnum

from engine.base.errors import PeerError


class CommandType(IntEnum):
    """Every command by its number on the wire."""

    CONNECT = 2
    CONNECTED = 3
    SUBSCRIBE = 4
    PRODUCER = 5
    SEND = 6
    SEND_RECEIPT = 7
    SEND_ERROR = 8
    MESSAGE = 9
    ACK = 10
    FLOW = 11
    UNSUBSCRIBE = 12
    SUCCESS = 13
    ERROR = 14
    CLOSE_PRODUCER = 15
    CLOSE_CONSUMER = 16
    PRODUCER_SUCCESS = 17
    PING = 18
    PONG = 19
    REDELIVER_UNACKNOWLEDGED_MESSAGES = 20
    PARTITIONED_METADATA = 21
    PARTITIONED_METADATA_RESPONSE = 22
    LOOKUP = 23
    LOOKUP_RESPONSE = 24
    CONSUMER_STATS = 25
    CONSUMER_STATS_RESPONSE = 26
    REACHED_END_OF_TOPIC = 27
    SEEK = 28
    GET_LAST_MESSAGE_ID = 29
    GET_LAST_MESSAGE_ID_RESPONSE = 30
    ACTIVE_CONSUMER_CHANGE = 31
    GET_TOPICS_OF_NAMESPACE = 32
    GET_TOPICS_OF_NAMESPACE_RESPONSE = 33
    GET_SCHEMA = 34
    GET_SCHEMA_RESPONSE = 35
    AUTH_CHALLENGE = 36
    AUTH_RESPONSE = 37
    ACK_RESPONSE = 38
    GET_OR_CREATE_SCHEMA = 39
    GET_OR_CREATE_SCHEMA_RESPONSE = 40
    NEW_TXN = 50
    NEW_TXN_RESPONSE = 51
    ADD_PARTITION_TO_TXN = 52
    ADD_PARTITION_TO_TXN_RESPONSE = 53
    ADD_SUBSCRIPTION_TO_TXN = 54
    ADD_SUBSCRIPTION_TO_TXN_RESPONSE = 55
    END_TXN = 56
    END_TXN_RESPONSE = 57
    END_TXN_ON_PARTITION = 58
    END_TXN_ON_PARTITION_RESPONSE = 59
    END_TXN_ON_SUBSCRIPTION = 60
    END_TXN_ON_SUBSCRIPTION_RESPONSE = 61
    TC_CLIENT_CONNECT_REQUEST = 62
    TC_CLIENT_CONNECT_RESPONSE = 63
    WATCH_TOPIC_LIST = 64
    WATCH_TOPIC_LIST_SUCCESS = 65
    WATCH_TOPIC_UPDATE = 66
    WATCH_TOPIC_LIST_CLOSE = 67
    TOPIC_MIGRATED = 68
    SCALABLE_TOPIC_LOOKUP = 70
    SCALABLE_TOPIC_UPDATE = 71
    SCALABLE_TOPIC_CLOSE = 72
    SCALABLE_TOPIC_SUBSCRIBE = 73
    SCALABLE_TOPIC_SUBSCRIBE_RESPONSE = 74
    SCALABLE_TOPIC_ASSIGNMENT_UPDATE = 75
    WATCH_SCALABLE_TOPICS = 76
    WATCH_SCALABLE_TOPICS_UPDATE = 77
    WATCH_SCALABLE_TOPICS_CLOSE = 78
    WATCH_TC_ASSIGNMENTS = 79
    WATCH_TC_ASSIGNMENTS_UPDATE = 80
    WATCH_TC_ASSIGNMENTS_CLOSE = 81


class State(Enum):
    """The state of one connection; each side derives it from what it sent and received."""

    START = "start"
    CONNECTING = "connecting"
    """The client sent CONNECT, and its credentials are being checked."""
    CHALLENGED = "challenged"
    """The broker sent AUTH_CHALLENGE and has no answer yet."""
    CONNECTED = "connected"
    REFRESHING = "refreshing"
    """The broker has asked a connected client for new credentials and has no answer yet; requests are served."""


SERVING = (State.CONNECTED, State.REFRESHING)
"""States in which requests are served."""


class IllegalCommandError(PeerError):
    """A command of the other side that the connection's state does not allow."""

    def __init__(self, state: State, command: CommandType) -> None:
        super().__init__(f"{command.name} in state {state.value}")
        self.state = state
        self.command = command


REQUESTS = (
    CommandType.SUBSCRIBE,
    CommandType.PRODUCER,
    CommandType.SEND,
    CommandType.ACK,
    CommandType.FLOW,
    CommandType.UNSUBSCRIBE,
    CommandType.CLOSE_PRODUCER,
    CommandType.CLOSE_CONSUMER,
    CommandType.PING,
    CommandType.PONG,
    CommandType.REDELIVER_UNACKNOWLEDGED_MESSAGES,
    CommandType.PARTITIONED_METADATA,
    CommandType.LOOKUP,
    CommandType.CONSUMER_STATS,
    CommandType.SEEK,
    CommandType.GET_LAST_MESSAGE_ID,
    CommandType.GET_TOPICS_OF_NAMESPACE,
    CommandType.GET_SCHEMA,
    CommandType.AUTH_RESPONSE,
    CommandType.GET_OR_CREATE_SCHEMA,
    CommandType.NEW_TXN,
    CommandType.ADD_PARTITION_TO_TXN,
    CommandType.ADD_SUBSCRIPTION_TO_TXN,
    CommandType.END_TXN,
    CommandType.END_TXN_ON_PARTITION,
    CommandType.END_TXN_ON_SUBSCRIPTION,
    CommandType.TC_CLIENT_CONNECT_REQUEST,
    CommandType.WATCH_TOPIC_LIST,
    CommandType.WATCH_TOPIC_LIST_CLOSE,
)
"""Commands that a client may send on a connected connection. Only AUTH_RESPONSE changes its state, once it was asked
for."""

ANSWERS = (
    CommandType.SEND_RECEIPT,
    CommandType.SEND_ERROR,
    CommandType.MESSAGE,
    CommandType.SUCCESS,
    CommandType.ERROR,
    CommandType.CLOSE_PRODUCER,
    CommandType.CLOSE_CONSUMER,
    CommandType.PRODUCER_SUCCESS,
    CommandType.PING,
    CommandType.PONG,
    CommandType.PARTITIONED_METADATA_RESPONSE,
    CommandType.LOOKUP_RESPONSE,
    CommandType.CONSUMER_STATS_RESPONSE,
    CommandType.REACHED_END_OF_TOPIC,
    CommandType.GET_LAST_MESSAGE_ID_RESPONSE,
    CommandType.ACTIVE_CONSUMER_CHANGE,
    CommandType.GET_TOPICS_OF_NAMESPACE_RESPONSE,
    CommandType.GET_SCHEMA_RESPONSE,
    CommandType.ACK_RESPONSE,
    CommandType.GET_OR_CREATE_SCHEMA_RESPONSE,
    CommandType.NEW_TXN_RESPONSE,
    CommandType.ADD_PARTITION_TO_TXN_RESPONSE,
    CommandType.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
    CommandType.END_TXN_RESPONSE,
    CommandType.END_TXN_ON_PARTITION_RESPONSE,
    CommandType.END_TXN_ON_SUBSCRIPTION_RESPONSE,
    CommandType.TC_CLIENT_CONNECT_RESPONSE,
    CommandType.WATCH_TOPIC_LIST_SUCCESS,
    CommandType.WATCH_TOPIC_UPDATE,
    CommandType.TOPIC_MIGRATED,
)
"""Commands that a broker may send on a connected connection besides AUTH_CHALLENGE; none of them changes its state."""

RECEIVED: dict[tuple[State, CommandType], State] = {
    (State.START, CommandType.CONNECT): State.CONNECTING,
    (State.CHALLENGED, CommandType.AUTH_RESPONSE): State.CONNECTING,
    **{(state, command): state for state in SERVING for command in REQUESTS},
    (State.REFRESHING, CommandType.AUTH_RESPONSE): State.CONNECTED,
}
"""State after a command from the client; a pair that is missing ends the connection."""

SENT: dict[tuple[State, CommandType], State] = {
    (State.CONNECTING, CommandType.CONNECTED): State.CONNECTED,
    (State.CONNECTING, CommandType.AUTH_CHALLENGE): State.CHALLENGED,
    (State.CONNECTED, CommandType.AUTH_CHALLENGE): State.REFRESHING,
}
"""State after the broker's part of the handshake and of later challenges."""

_FROM_BROKER: dict[tuple[State, CommandType], State] = {
    **SENT,
    # A refused client receives the reason before the connection is closed.
    (State.START, CommandType.ERROR): State.START,
    (State.CONNECTING, CommandType.ERROR): State.CONNECTING,
    **{(state, command): state for state in SERVING for command in ANSWERS},
}
"""State after a command from the broker."""


def after_received(state: State, command: int) -> State:
    """Return a broker's state after a client's command. Raises IllegalCommandError."""
    return _after(RECEIVED, state, command)


def after_broker_command(state: State, command: int) -> State:
    """Return a client's state after a broker's command. Raises IllegalCommandError."""
    return _after(_FROM_BROKER, state, command)


def _after(table: dict[tuple[State, CommandType], State], state: State, command: int) -> State:
    kind = CommandType(command)
    next_state = table.get((state, kind))
    if next_state is None:
        raise IllegalCommandError(state, kind)
    return next_state
