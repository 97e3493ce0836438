"""The handler that kazoo's connection thread waits on and reads through, over real sockets."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from engine.metadata.kazoo.kazoo_handler import AheadSocket, KazooAnswer, LoopHandler, Wake


@pytest.fixture
def pair() -> Iterator[tuple[AheadSocket, socket.socket]]:
    here, there = socket.socketpair()
    with there:
        ahead = AheadSocket(here)
        yield ahead, there
        ahead.close()


@pytest.fixture
def wake() -> Iterator[Wake]:
    (made, other) = LoopHandler().create_socket_pair()
    assert made is other
    yield made
    made.close()


def test_bytes_read_ahead_are_ready_without_polling_the_socket(
    pair: tuple[AheadSocket, socket.socket],
) -> None:
    here, there = pair
    there.sendall(b"headbody")
    handler = LoopHandler()
    assert handler.select([here], [], [], 5)[0] == [here]
    assert here.recv(4) == b"head"
    assert here.pending() == 4
    assert handler.select([here], [], [], 0)[0] == [here]
    assert here.recv(100) == b"body"
    assert handler.select([here], [], [], 0.01)[0] == []


def test_writes_leave_with_the_next_wait(pair: tuple[AheadSocket, socket.socket]) -> None:
    here, there = pair
    there.settimeout(10)
    assert LoopHandler().select([], [here], [], 0)[1] == [here]
    assert here.send(b"one") == 3
    assert here.send(b"two") == 3
    LoopHandler().select([here], [], [], 0)
    assert there.recv(100) == b"onetwo"


def test_a_write_to_a_server_that_does_not_read_times_out(
    pair: tuple[AheadSocket, socket.socket],
) -> None:
    here, _ = pair
    handler = LoopHandler()
    here._out += bytes(8 << 20)
    with pytest.raises(handler.timeout_exception):
        handler.select([here], [], [], 0.05)


def test_a_request_wakes_the_thread_that_sleeps(
    pair: tuple[AheadSocket, socket.socket], wake: Wake
) -> None:
    here, _ = pair
    ready: list[object] = []
    thread = threading.Thread(
        target=lambda: ready.extend(LoopHandler().select([here, wake], [], [], 30)[0])
    )
    thread.start()
    while not wake._asleep:
        time.sleep(0.001)
    wake.send(b"\0")
    thread.join(30)
    assert ready == [wake]
    assert wake.recv(1) == b"\0"
    assert LoopHandler().select([here, wake], [], [], 0.01)[0] == []


def test_no_request_is_missed_in_any_interleaving_of_the_threads(
    pair: tuple[AheadSocket, socket.socket], wake: Wake
) -> None:
    here, _ = pair
    taken = 0
    count = 20_000

    def take() -> None:
        nonlocal taken
        handler = LoopHandler()
        while taken < count:
            ready = handler.select([here, wake], [], [], 30)[0]
            assert ready, f"slept through a request after {taken}"
            if wake.pending():
                wake.recv(1)
                taken += 1

    thread = threading.Thread(target=take)
    thread.start()
    for i in range(count):
        wake.send(b"\0")
        if i % 7 == 0:
            time.sleep(0)
    thread.join(60)
    assert taken == count


def test_answers_already_here_do_not_keep_requests_from_leaving(
    pair: tuple[AheadSocket, socket.socket], wake: Wake
) -> None:
    here, there = pair
    there.sendall(bytes(1000))
    wake.send(b"\0")
    handler = LoopHandler()
    handler.select([here], [], [], 5)
    here.recv(1)
    assert handler.select([here, wake], [], [], 5)[0] == [here, wake]


def test_each_callback_of_an_answer_runs_once_before_or_after_it_is_set() -> None:
    handler = LoopHandler()
    answer: KazooAnswer = handler.async_result()
    calls: list[object] = []
    answer.rawlink(lambda result: calls.append(("before", result.value)))
    unwanted = calls.append
    answer.rawlink(unwanted)
    answer.unlink(unwanted)
    with pytest.raises(handler.timeout_exception):
        answer.get_nowait()
    answer.set(7)
    answer.rawlink(lambda result: calls.append(("after", result.value)))
    assert calls == [("before", 7), ("after", 7)]
    assert answer.successful()
    assert answer.get(timeout=0) == 7


def test_a_waiter_receives_the_result_that_another_thread_sets() -> None:
    answer = LoopHandler().async_result()
    thread = threading.Timer(0.02, answer.set_exception, [ValueError("no")])
    thread.start()
    with pytest.raises(ValueError, match="no"):
        answer.get(timeout=30)
    assert not answer.successful()
    thread.join()
