"""Sending to real receivers on this machine, and which destinations are refused."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
from django.core import mail

from engine.base.errors import Conflict, InvalidField
from gateway.alerts import destinations, sending, services
from gateway.alerts.destinations import DestinationError, parse_url, resolve
from gateway.alerts.messages import Notification
from gateway.alerts.models import AlertChannel, AlertFiring, DeliveryKind
from gateway.alerts.sending import ID_HEADER, SendError, send

HOSTILE = "<!channel> & a\nb"


class Receiver(BaseHTTPRequestHandler):
    """Records what it receives; answers by the number at the end of the path."""

    received: ClassVar[list[tuple[str, dict[str, str], Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, dict(self.headers), json.loads(body)))
        status = int(self.path.rpartition("/")[2])
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/secret")
        self.end_headers()
        self.wfile.write(b"what it answers is shown to nobody")

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def receiver(settings: Any) -> Iterator[str]:
    Receiver.received.clear()
    settings.ALERTS = replace(settings.ALERTS, alert_destinations="127.0.0.0/8, ::1")
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def message() -> Notification:
    firing = AlertFiring(title=HOSTILE, detail="backlog 5", topic="persistent://t/n/a", since=0)
    return Notification(
        "c-7", DeliveryKind.BEGIN, "c", "deep", "error", [firing], 2, "https://con.example"
    )


def channel(kind: str, url: str = "", recipients: tuple[str, ...] = ()) -> AlertChannel:
    return AlertChannel(kind=kind, secret_url=url, recipients=list(recipients))


def test_a_webhook_receives_the_firings_and_the_id_of_the_delivery(receiver: str) -> None:
    send(channel("webhook", f"{receiver}/hook/200"), message())
    ((path, headers, body),) = Receiver.received
    assert path == "/hook/200"
    assert headers[ID_HEADER] == body["id"] == "c-7"
    assert (body["event"], body["left_out"]) == ("begin", 2)
    assert body["firings"][0]["topic"] == "persistent://t/n/a"


def test_names_cannot_address_people_in_slack(receiver: str) -> None:
    send(channel("slack", f"{receiver}/200"), message())
    text = Receiver.received[0][2]["text"]
    assert "<!channel>" not in text
    assert "&lt;!channel&gt; &amp; a b" in text
    assert "<https://con.example/alerts|Open the alerts>" in text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("500", "127.0.0.1 answers HTTP 500"),
        ("302", "127.0.0.1 redirects (HTTP 302), which is not followed"),
    ],
)
def test_a_refusal_is_an_error_without_the_url_or_the_answer(
    receiver: str, path: str, text: str
) -> None:
    with pytest.raises(SendError) as refused:
        send(channel("webhook", f"{receiver}/T0KEN/{path}"), message())
    assert str(refused.value) == text
    assert len(Receiver.received) == 1


def test_a_destination_that_is_away_is_an_error_without_the_url(receiver: str) -> None:
    with pytest.raises(SendError) as refused:
        send(channel("webhook", "http://127.0.0.1:1/T0KEN"), message())
    assert str(refused.value) == "127.0.0.1 cannot be connected to"


def test_mail_has_one_line_as_its_subject(settings: Any) -> None:
    with pytest.raises(SendError, match="no mail server"):
        send(channel("email", recipients=("a@x.example",)), message())
    settings.ALERTS = replace(settings.ALERTS, smtp_host="m", mail_from="m@x.example")
    send(channel("email", recipients=("a@x.example", "b@x.example")), message())
    (sent,) = mail.outbox
    assert sent.subject == "[c] error firing: deep: 3 objects"
    assert sent.to == ["a@x.example", "b@x.example"]
    assert "<!channel> & a b – backlog 5" in sent.body
    assert "and 2 more" in sent.body


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x",
        "https://127.0.0.1/x",
        "https://10.1.2.3/x",
        "https://169.254.169.254/latest",
        "https://[::1]/x",
        "https://[::ffff:10.0.0.1]/x",
        "https://[2002:7f00:1::]/x",
        "https://0.0.0.0/x",
        "ftp://example.com/x",
        "file:///etc/passwd",
        "https://user:secret@example.com/",
        "https://example.com/#x",
        "https://exa mple.com/",
        "https://example.com:99999/",
        "https:///x",
        "https://example.com/\r\nX: y",
        "https://example.com/" + "x" * 2_000,
    ],
)
def test_urls_that_only_the_gateway_reaches_are_refused(url: str) -> None:
    with pytest.raises(InvalidField) as refused:
        parse_url(url)
    assert refused.value.field == "secret_url"
    assert url not in str(refused.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fe80::1"])
def test_a_name_with_an_address_that_is_not_public_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def found(*args: Any, **kwargs: Any) -> list[Any]:
        return [(0, 0, 0, "", ("93.184.215.14", 443)), (0, 0, 0, "", (address, 443))]

    monkeypatch.setattr(destinations.socket, "getaddrinfo", found)
    with pytest.raises(DestinationError, match="not public"):
        resolve(parse_url("https://rebound.example/"))


def test_the_setting_permits_hosts_and_networks(settings: Any) -> None:
    settings.ALERTS = replace(settings.ALERTS, alert_destinations="hooks.internal,10.0.0.0/8")
    assert parse_url("http://HOOKS.internal/x").port == 80
    assert parse_url("https://10.1.2.3:8443/x?t=1").target == "/x?t=1"
    with pytest.raises(InvalidField):
        parse_url("http://other.internal/x")


@pytest.fixture
def dripping(settings: Any) -> Iterator[str]:
    """A server that sends a byte of an endless header now and then: no read of it ever times out."""
    settings.ALERTS = replace(settings.ALERTS, alert_destinations="127.0.0.0/8")
    over = threading.Event()

    def drip(accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            accepted.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.05):
                accepted.sendall(b"x")

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)


def test_a_destination_that_drips_its_answer_is_left_when_its_time_is_over(
    dripping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "SEND_S", 1.0)
    with pytest.raises(SendError, match=r"^127\.0\.0\.1 does not answer in time$"):
        send(channel("webhook", dripping), message())


def test_one_test_of_an_owner_is_sent_at_a_time(
    dripping: str, receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "SEND_S", 2.0)
    hung = services.begin_test(channel("webhook", dripping))
    with pytest.raises(Conflict, match="is being sent"):
        services.begin_test(channel("webhook", f"{receiver}/200"))
    other = channel("webhook", f"{receiver}/200")
    other.tenant = "t"
    assert services.begin_test(other).result(60) == ""
    assert hung.result(60) == "127.0.0.1 does not answer in time"
    assert services.begin_test(channel("webhook", f"{receiver}/200")).result(60) == ""
