"""WebSocket paths: what they name, and with which status they are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ws.frames import HandshakeRefusedError
from gateway.ws.paths import Target, parse

GOOD = [
    ("/ws/v2/producer/persistent/t/n/x", Target("producer", "persistent://t/n/x")),
    ("/ws/v2/reader/persistent/t/n/x%20y", Target("reader", "persistent://t/n/x y")),
    ("/ws/v2/consumer/persistent/t/n/x/s", Target("consumer", "persistent://t/n/x", "s")),
    ("/ws/v2/consumer/persistent/t/n/x/a%2Fb", Target("consumer", "persistent://t/n/x", "a/b")),
    ("/ws/v2/producer/non-persistent/t/n/x", Target("producer", "non-persistent://t/n/x")),
    ("/ws/producer/persistent/t/c/n/x", Target("producer", "persistent://t/c/n/x")),
    ("/ws/consumer/persistent/t/c/n/x/s", Target("consumer", "persistent://t/c/n/x", "s")),
    ("/ws/v3/consumer/s", Target("consumer", "", "s")),
    ("/ws/v2/producer/persistent/t/n/x/", Target("producer", "persistent://t/n/x")),
    ("/ws/v2/reader/persistent/t/n/x/", Target("reader", "persistent://t/n/x")),
    ("/ws/v2/consumer/persistent/t/n/x/s/", Target("consumer", "persistent://t/n/x", "s")),
    ("/ws/v2/consumer/persistent/t/n/x/a%2F/", Target("consumer", "persistent://t/n/x", "a/")),
    ("/ws/v2/reader/non-persistent/t/n/x///", Target("reader", "non-persistent://t/n/x")),
    ("/ws/producer/persistent/t/c/n/x/", Target("producer", "persistent://t/c/n/x")),
    ("/ws/reader/persistent/t/c/n/x/", Target("reader", "persistent://t/c/n/x")),
    ("/ws/consumer/persistent/t/c/n/x/s/", Target("consumer", "persistent://t/c/n/x", "s")),
    ("/ws/v3/consumer/s/", Target("consumer", "", "s")),
]
BAD = [
    ("/ws/", 404),
    ("/ws/v2", 404),
    ("/ws/v2/", 404),
    ("/ws/v2/pingpong", 404),
    ("/ws/v2/bogus/persistent/t/n/x", 404),
    ("/ws/v3/producer/s", 404),
    ("/ws/v3/consumer/", 400),
    ("/ws/v3/consumer/s/t", 400),
    ("/ws/v2/producer/persistent/t/x", 500),
    ("/ws/v2/producer/bogus/t/n/x", 500),
    ("/ws/v2/producer/persistent/t/n/", 500),
    ("/ws/v2/producer/persistent/t/n/%20", 500),
    ("/ws/v2/producer/persistent/t/n/x%2F", 400),
    ("/ws/v2/producer/persistent/t/n//x", 400),
    ("/ws/v2/reader/persistent/t//n/x", 400),
    ("/ws//v2/reader/persistent/t/n/x", 404),
    ("/ws/v2/consumer/persistent/t/n/x//s", 400),
    ("/ws/v2/consumer/persistent/t/n/x", 400),
    ("/ws/v2/consumer/persistent/t/n/x/", 400),
    ("/ws/v2/consumer/persistent/t/n/x/s/more", 400),
    ("/ws/v2/producer/persistent/t/n/..", 400),
    ("/ws/v2/producer/persistent/t/n/%2e%2e", 400),
    ("/ws/v2/producer/persistent/t/n/..%2F..%2Fx", 400),
    ("/ws/v2/producer/persistent/t%2Fu/n/x/y", 400),
    ("/ws/v2/producer/persistent/t/n/%ff", 400),
    ("/ws/v2/producer/persistent/t/n/x%00y", 400),
    ("/ws/v2/producer/persistent/t/n/x\xff", 400),
]


@pytest.mark.parametrize(("path", "target"), GOOD)
def test_a_path_names_its_target(path: str, target: Target) -> None:
    assert parse(path.encode()) == target


@pytest.mark.parametrize(("path", "status"), BAD)
def test_a_path_is_refused_with_its_status(path: str, status: int) -> None:
    with pytest.raises(HandshakeRefusedError) as caught:
        parse(path.encode())
    assert caught.value.status == status


@given(
    st.lists(st.sampled_from(["v2", "consumer", "persistent", "t", "", "..", "%2F", "%", "%ff"]))
)
def test_any_path_is_a_target_or_a_refusal(parts: list[str]) -> None:
    try:
        target = parse("/".join(["", "ws", *parts]).encode())
    except HandshakeRefusedError as error:
        assert 400 <= error.status <= 500
    else:
        assert ".." not in target.topic.split("/")
