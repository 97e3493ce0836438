"""Every pair of state and command, against Pulsar's rules."""

import itertools

import pytest

from engine.wire.states import (
    RECEIVED,
    REQUESTS,
    SENT,
    SERVING,
    CommandType,
    IllegalCommandError,
    State,
    after_received,
)

BROKER_ONLY = {
    kind
    for kind in CommandType
    if kind.name.endswith(("_RESPONSE", "_SUCCESS", "_ERROR", "_RECEIPT", "_UPDATE"))
    and kind is not CommandType.AUTH_RESPONSE
} | {
    CommandType.CONNECTED,
    CommandType.MESSAGE,
    CommandType.SUCCESS,
    CommandType.ERROR,
    CommandType.AUTH_CHALLENGE,
    CommandType.ACTIVE_CONSUMER_CHANGE,
    CommandType.REACHED_END_OF_TOPIC,
    CommandType.TOPIC_MIGRATED,
}
NOT_ANNOUNCED = {kind for kind in CommandType if kind >= 70}
"""Scalable topics: clients send these only to brokers that announce them."""


@pytest.mark.parametrize(("state", "command"), list(itertools.product(State, CommandType)))
def test_each_pair_changes_the_state_or_is_refused(state: State, command: CommandType) -> None:
    request = command not in BROKER_ONLY | NOT_ANNOUNCED | {CommandType.CONNECT}
    allowed = {
        State.START: command is CommandType.CONNECT,
        State.CONNECTING: False,
        State.CHALLENGED: command is CommandType.AUTH_RESPONSE,
        State.CONNECTED: request,
        State.REFRESHING: request,
    }[state]
    if allowed:
        moved = after_received(state, command)
        if state is State.REFRESHING and command is CommandType.AUTH_RESPONSE:
            assert moved is State.CONNECTED
        else:
            assert moved is (state if state in SERVING else State.CONNECTING)
    else:
        with pytest.raises(IllegalCommandError, match=command.name):
            after_received(state, command)


def test_connected_is_entered_only_by_the_brokers_command() -> None:
    entering = {pair for pair, target in RECEIVED.items() if target is State.CONNECTED}
    assert {state for state, _ in entering} == set(SERVING)
    assert [pair for pair, target in SENT.items() if target in SERVING] == [
        (State.CONNECTING, CommandType.CONNECTED),
        (State.CONNECTED, CommandType.AUTH_CHALLENGE),
    ]


def test_no_request_is_listed_twice() -> None:
    assert len(set(REQUESTS)) == len(REQUESTS)
