"""A slow handshake: bytes read meanwhile are neither lost nor handled in the wrong state."""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from engine.auth.authentication import Authentication, Roles
from engine.auth.authenticators.signing_keys import SecretKey
from engine.auth.authenticators.token_provider import TokenProvider
from engine.auth.credentials import Challenge, Credentials
from engine.auth.identity import Identity
from engine.base.clock import LoopClock
from engine.base.tasks import TaskScope
from engine.net.handshake import (
    REFRESH_EARLY_S,
    REFRESH_GRACE_S,
    Authenticate,
    Handshake,
    Verdict,
    allow_all,
)
from engine.wire import client_commands as say
from engine.wire import commands
from engine.wire.errors import CodedError, ServerError
from engine.wire.events import Command, Event, Violation
from engine.wire.peer import Peer
from tests.support.net.lines import Line

pytestmark = pytest.mark.virtual_time
CONNECT = say.connect("test", auth_method_name="token", auth_data=b"good")
BEHIND = commands.ping() + say.flow(1, 5) + say.lookup("t", 9)


class NotGood(CodedError):
    code = ServerError.AuthenticationError


class Served(Line):
    """The serving side with nothing behind its handshake; other commands are recorded in ``done``."""

    def __init__(self, authenticate: Authenticate) -> None:
        super().__init__()
        self.done: list[str] = []
        self.connected = 0
        self.clock = LoopClock()
        self._peer = Peer()
        self._handshake = Handshake(
            self,
            self._peer,
            TaskScope("test"),
            authenticate,
            clock=self.clock,
            server_version="test",
            max_message_size=1000,
            feature_flags={},
            connected=self._connected,
        )
        self._handshake.start(10.0)

    def _connected(self) -> None:
        self.connected += 1

    @property
    def identity(self) -> Identity:
        return self._handshake.client.identity

    def received(self, buf: bytes, pos: int, end: int) -> int:
        before = -1
        while pos != before and not self.closing:
            if self._handshake.waiting:
                self._handshake.defer(buf[pos:end])
                return end
            before = pos
            pos, events = self._peer.take(buf, pos, end)
            for event in events:
                self._do(event)
        return pos

    def _do(self, event: Event) -> None:
        if isinstance(event, Violation):
            self.close(event.error)
            return
        assert isinstance(event, Command)
        command = event.command
        if command.HasField("connect"):
            self._handshake.connect(command.connect)
        elif command.HasField("authResponse"):
            self._handshake.auth_response(command.authResponse)
        else:
            self.done.append(commands.command_name(command.type))


class Judge:
    """A judge that decides once ``decide`` is set, and that challenges a client with the data "half"."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.decide = asyncio.Event()

    def __call__(self, credentials: Credentials) -> Awaitable[Verdict]:
        self.asked.append((credentials.method, credentials.data))
        return self._judge(credentials.data)

    async def _judge(self, data: bytes) -> Verdict:
        await self.decide.wait()
        if data == b"half":
            return Challenge("token", b"and the rest?")
        if data != b"good":
            raise NotGood("Failed to authenticate")
        return Identity("app", method="token")


async def settled() -> None:
    await asyncio.sleep(0.001)


@pytest.mark.parametrize("cut", range(0, len(CONNECT + BEHIND), 7))
async def test_commands_sent_with_connect_are_served_in_order_once_the_judge_accepts(
    cut: int,
) -> None:
    judge = Judge()
    served = Served(judge)
    stream = CONNECT + BEHIND
    served.data_received(stream[:cut])
    await settled()
    served.data_received(stream[cut:-3])
    await settled()
    assert (served.done, served.kinds(), served.held) == ([], [], True)
    judge.decide.set()
    await settled()
    assert judge.asked == [("token", b"good")]
    assert served.kinds() == ["CONNECTED"]
    assert (served.done, served.held) == (["PING", "FLOW"], False)
    served.data_received(stream[-3:])
    assert served.done == ["PING", "FLOW", "LOOKUP"]
    assert served.connected == 1
    assert served.identity == Identity("app", method="token")


async def test_a_synchronous_verdict_is_applied_at_once() -> None:
    served = Served(allow_all)
    served.data_received(CONNECT + BEHIND)
    assert served.kinds() == ["CONNECTED"]
    assert served.done == ["PING", "FLOW", "LOOKUP"]


async def test_a_challenge_is_answered_before_anything_else() -> None:
    judge = Judge()
    judge.decide.set()
    served = Served(judge)
    served.data_received(say.connect("test", auth_method_name="token", auth_data=b"half"))
    await settled()
    [challenge] = served.said()
    assert challenge.authChallenge.challenge.auth_data == b"and the rest?"
    served.data_received(say.auth_response("token", b"good") + BEHIND)
    await settled()
    assert served.kinds() == ["CONNECTED"]
    assert served.done == ["PING", "FLOW", "LOOKUP"]


async def test_other_commands_do_not_answer_a_challenge() -> None:
    judge = Judge()
    judge.decide.set()
    served = Served(judge)
    half = say.connect("test", auth_method_name="token", auth_data=b"half")
    served.data_received(half + commands.ping())
    await settled()
    assert served.ends == ["closed: PING in state challenged"]
    assert served.done == []


async def test_a_refused_client_receives_the_reason_and_is_disconnected() -> None:
    judge = Judge()
    judge.decide.set()
    served = Served(judge)
    served.data_received(say.connect("test", auth_method_name="token", auth_data=b"bad") + BEHIND)
    await settled()
    [error] = served.said()
    assert error.error.request_id == commands.NO_REQUEST
    assert error.error.error == ServerError.AuthenticationError
    assert error.error.message == "Failed to authenticate"
    assert served.ends == ["closed: refused: Failed to authenticate"]
    assert served.done == []


async def test_a_client_that_sends_no_connect_is_disconnected_at_the_deadline() -> None:
    served = Served(allow_all)
    await asyncio.sleep(11)
    assert served.ends == ["closed: no CONNECT within 10 s"]


async def test_a_judge_that_never_decides_ends_the_connection_at_the_deadline() -> None:
    served = Served(Judge())
    served.data_received(CONNECT)
    await asyncio.sleep(11)
    assert served.ends == ["closed: not authenticated within 10 s"]


async def test_a_finished_handshake_has_no_deadline() -> None:
    served = Served(allow_all)
    served.data_received(CONNECT)
    await asyncio.sleep(11)
    assert served.ends == []


# --- credentials that expire --------------------------------------------------------------------------


def passes(credentials: Credentials) -> Identity:
    """Accept data of the form ``role``, or ``role:expiry`` in seconds since the epoch."""
    role, _, expiry = credentials.data.decode().partition(":")
    if not role:
        raise NotGood("Failed to authenticate")
    original = credentials.original_principal
    return Identity(role, original, credentials.method, float(expiry) if expiry else None)


def in_seconds(seconds: float) -> float:
    return LoopClock().wall_ms() / 1000 + seconds


def token(role: str, expires_at: float) -> bytes:
    return f"{role}:{expires_at}".encode()


def shows(data: bytes, *, refreshes: bool = True, **given: str) -> bytes:
    features = {"supports_auth_refresh": True} if refreshes else None
    return say.connect(
        "test",
        auth_method_name="token",
        auth_data=data,
        feature_flags=features,
        original_principal=given.get("original_principal"),
    )


def answered(data: bytes) -> bytes:
    return say.auth_response("token", data)


async def refreshing(served: Served, after_s: float) -> None:
    """Wait for the next challenge, due ``after_s`` seconds from now, and check it."""
    await asyncio.sleep(after_s - 0.02)
    assert served.said() == []
    await asyncio.sleep(0.03)
    [challenge] = served.said()
    assert challenge.authChallenge.challenge.auth_method_name == "token"
    assert challenge.authChallenge.challenge.auth_data == b"PulsarAuthRefresh"


async def connected(data: bytes, authenticate: Authenticate = passes, **how: Any) -> Served:
    served = Served(authenticate)
    served.data_received(shows(data, **how))
    await settled()
    assert served.kinds() == ["CONNECTED"]
    return served


async def test_credentials_that_do_not_expire_need_no_timer() -> None:
    served = await connected(b"app")
    assert served._handshake._timer is None
    assert served.identity == Identity("app", method="token")


async def test_a_client_is_challenged_before_its_credentials_expire() -> None:
    served = await connected(token("app", in_seconds(60)))
    await refreshing(served, 60 - REFRESH_EARLY_S)
    served.data_received(commands.ping() + say.lookup("t", 1))  # served meanwhile
    renewed = in_seconds(100)
    served.data_received(answered(token("app", renewed)) + commands.ping())
    assert served.done == ["PING", "LOOKUP", "PING"]
    assert served.identity.expires_at == pytest.approx(renewed)
    assert served.said() == []
    await refreshing(served, 100 - REFRESH_EARLY_S)
    assert served.ends == []


async def test_repeated_old_credentials_are_challenged_again_when_they_expire() -> None:
    ending = token("app", in_seconds(60))
    served = await connected(ending)
    await refreshing(served, 60 - REFRESH_EARLY_S)
    served.data_received(answered(ending))
    await refreshing(served, REFRESH_EARLY_S)
    served.data_received(answered(ending))
    assert served.ends == ["closed: the client's credentials have expired"]


async def test_a_client_that_does_not_answer_is_disconnected() -> None:
    served = await connected(token("app", in_seconds(60)))
    await refreshing(served, 60 - REFRESH_EARLY_S)
    await asyncio.sleep(REFRESH_EARLY_S + REFRESH_GRACE_S - 0.1)
    assert served.ends == []
    await asyncio.sleep(0.2)
    assert served.ends == ["closed: the client's credentials have expired"]
    assert served.said() == []  # without an error, as Pulsar


@pytest.mark.parametrize(
    "how", [{"refreshes": False}, {"original_principal": "user"}], ids=["old client", "by a proxy"]
)
async def test_a_client_that_cannot_renew_is_disconnected_at_the_expiry(
    how: dict[str, Any],
) -> None:
    """Disconnect also behind a proxy: one that does not pass on its clients' credentials cannot renew them."""
    served = await connected(token("app", in_seconds(60)), **how)
    await asyncio.sleep(59.9)
    assert served.ends == []
    await asyncio.sleep(0.2)
    assert served.ends == ["closed: the client's credentials have expired"]
    assert served.said() == []


@pytest.mark.parametrize(
    ("response", "end"),
    [
        (answered(b""), "refused: Failed to authenticate"),
        (answered(b"other"), "new credentials change the role from 'app' to 'other'"),
        (
            commands.command_frame("authResponse", response={"auth_method_name": "token"}),
            "AUTH_RESPONSE without a method or data",
        ),
        (
            commands.command_frame("authResponse", client_version="test"),
            "AUTH_RESPONSE without a method or data",
        ),
    ],
    ids=["bad", "another role", "no data", "no response"],
)
async def test_wrong_answers_end_the_connection(response: bytes, end: str) -> None:
    served = await connected(token("app", in_seconds(60)))
    await refreshing(served, 60 - REFRESH_EARLY_S)
    served.data_received(response)
    assert served.ends == [f"closed: {end}"]
    assert served.identity.role == "app"
    assert served.kinds() == (["ERROR"] if end.startswith("refused") else [])


async def test_unsolicited_auth_responses_are_ignored() -> None:
    for served in (await connected(b"app"), await connected(b"app", allow_all)):
        before = served.identity
        served.data_received(answered(b"other"))
        served.data_received(answered(b""))
        served.data_received(commands.command_frame("authResponse", client_version="test"))
        assert (served.identity, served.ends, served.said()) == (before, [], [])


async def test_requests_are_served_while_new_credentials_are_checked() -> None:
    gate = asyncio.Event()

    async def later(verdict: Verdict) -> Verdict:
        await gate.wait()
        return verdict

    served = await connected(token("app", in_seconds(60)))
    await refreshing(served, 60 - REFRESH_EARLY_S)
    served._handshake._authenticate = lambda credentials: later(passes(credentials))
    served.data_received(answered(token("app", in_seconds(500))) + commands.ping())
    assert served.done == ["PING"]
    assert not served.held
    assert served.identity.expires_at == pytest.approx(in_seconds(REFRESH_EARLY_S), abs=0.1)
    gate.set()
    await settled()
    assert served.identity.expires_at == pytest.approx(in_seconds(500), abs=0.1)
    await asyncio.sleep(60)
    assert served.ends == []


async def test_credentials_whose_check_hangs_expire_as_if_not_sent() -> None:
    served = await connected(token("app", in_seconds(60)))
    await refreshing(served, 60 - REFRESH_EARLY_S)
    served._handshake._authenticate = Judge()
    served.data_received(answered(b"good"))
    await asyncio.sleep(REFRESH_EARLY_S + REFRESH_GRACE_S + 0.1)
    assert served.ends == ["closed: the client's credentials have expired"]


async def test_credentials_of_long_life_are_watched_by_the_wall_clock() -> None:
    served = await connected(token("app", in_seconds(86_400)))
    await asyncio.sleep(100)
    served.clock.epoch_ms += 86_400_000  # the machine was suspended
    await asyncio.sleep(600)
    [challenge] = served.kinds()
    assert challenge == "AUTH_CHALLENGE"


async def test_the_judge_receives_all_credentials_of_client_and_proxy() -> None:
    seen: list[Credentials] = []

    def judge(credentials: Credentials) -> Verdict:
        seen.append(credentials)
        return Challenge("token", b"?") if len(seen) == 1 else passes(credentials)

    served = Served(judge)
    served.data_received(
        commands.command_frame(
            "connect",
            client_version="proxy",
            auth_method_name="token",
            auth_data=b"first",
            original_principal="user",
            original_auth_method="basic",
            original_auth_data="user:password",
        )
    )
    served.data_received(answered(b"proxy"))
    original = {
        "original_principal": "user",
        "original_method": "basic",
        "original_data": b"user:password",
    }
    assert seen == [
        Credentials("token", b"first", **original),  # type: ignore[arg-type]
        Credentials("token", b"proxy", **original),  # type: ignore[arg-type]
    ]
    assert served.identity == Identity("proxy", "user", "token")


RECORDED = Path(__file__).parents[2] / "golden" / "authentication" / "refusals.jsonl"
FRAMES = [json.loads(line) for line in RECORDED.read_text().splitlines()[1:]]


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_refusal_is_the_recorded_one_byte_for_byte(number: int) -> None:
    sent, answered = (
        b"".join(
            bytes.fromhex(frame["hex"])
            for frame in FRAMES
            if frame["conn"] == number and frame["dir"] == direction
        )
        for direction in ("C>B", "B>C")
    )
    provider = TokenProvider(SecretKey(b"s" * 32), lambda: 0.0)
    served = Served(Authentication([provider], Roles()))
    served.data_received(sent)
    await settled()
    assert bytes(served._sent) == answered
    assert served.closing


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ({}, ServerError.AuthorizationError, "Invalid roles."),
        ({"original_principal": "user"}, None, ""),
    ],
)
async def test_a_proxy_that_names_no_client_is_refused(
    given: dict[str, str], code: ServerError | None, text: str
) -> None:
    roles = Roles(anonymous="proxy", proxies=frozenset({"proxy"}), judge_proxies=True)
    served = Served(Authentication([], roles))
    served.data_received(say.connect("test", **given))  # type: ignore[arg-type]
    await settled()
    assert served.connected == (code is None)
    if code is not None:
        [refusal] = served.said()
        assert (refusal.error.error, refusal.error.message) == (code, text)


async def test_a_method_stated_by_number_has_its_name() -> None:
    asked: list[str] = []

    def authenticate(credentials: Credentials) -> Identity:
        asked.append(credentials.method)
        return Identity("app")

    for number, method in ((0, "none"), (1, "ycav1"), (2, "athens")):
        frame = commands.command_frame("connect", client_version="test", auth_method=number)
        Served(authenticate).data_received(frame)
        assert asked.pop() == method


async def test_forwarded_credentials_that_the_broker_checked_are_the_ones_renewed() -> None:
    asked: list[Credentials] = []
    served: Served

    def authenticate(credentials: Credentials) -> Identity:
        asked.append(credentials)
        ends_at = served.clock.wall_ms() / 1000 + 100
        return Identity("proxy", "user", "tls", ends_at, "basic")

    served = Served(authenticate)
    served.data_received(
        commands.command_frame(
            "connect",
            client_version="test",
            auth_method_name="tls",
            auth_data=b"own",
            original_principal="user",
            original_auth_method="basic",
            original_auth_data="user:first",
            feature_flags={"supports_auth_refresh": True},
        )
    )
    await asyncio.sleep(100 - REFRESH_EARLY_S + 1)
    _, challenge = served.said()
    assert challenge.authChallenge.challenge.auth_method_name == "basic"
    served.data_received(say.auth_response("basic", b"user:second", "test"))
    await settled()
    assert [(c.data, c.original_method, c.original_data) for c in asked] == [
        (b"own", "basic", b"user:first"),
        (b"own", "basic", b"user:second"),
    ]
    assert not served.closing
