"""Messages as requests to a URL."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import h11

from engine.base.tasks import TaskScope
from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.connector_settings import (
    fields,
    mapping,
    number,
    text,
    url,
    whole,
)
from engine.functions.connectors.spi import (
    ConnectorContext,
    ConnectorError,
    LostEndError,
    Record,
    Sink,
)
from engine.functions.connectors.tls_settings import (
    VERIFY_HOST,
    PemFiles,
    client_tls_fields,
    verify_host_field,
)
from engine.functions.connectors.webhooks.webhook_source import SOURCE_SETTINGS, WebhookSource
from engine.net.http_client import HttpClient, HttpError, UnusableAnswerError
from engine.net.network import LoopNetwork

ANSWER_BYTES_MAX = 1 << 20
ANSWER_CHARS = 200
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 30.0
BUSY = (408, 425, 429)
"""Statuses, besides those from 500, after which a request is repeated."""
AWAY = (425, 429, 502, 503, 504)
"""Statuses that say nothing of the message."""
SINK_SETTINGS = fields(
    ("url",),
    url=url("URL", "Address of the requests", "^https?://[^/@?#]+([/?].*)?$"),
    method=text("Method", "Method of the requests", "POST", choices=("POST", "PUT", "PATCH")),
    contentType=text("Content type", "Content-Type of the requests", "application/json"),
    headers=mapping("Headers", "Headers of each request, such as Authorization", secret=True),
    user=text("User", "User for basic authentication", pattern="^[^:]+$"),
    password=text("Password", "Password for basic authentication", secret=True),
    **client_tls_fields(),
    **verify_host_field(),
    signingSecret=text(
        "Signing secret",
        "Key of the header X-Magnetar-Signature: sha256= and the HMAC of the body",
        secret=True,
    ),
    concurrency=whole("Concurrency", "Requests at the same time; 1 keeps the order", 1, 1, 100),
    retries=whole("Retries", "Repetitions of a request that could succeed later", 5, 0, 1000),
    timeoutSeconds=number("Timeout", "Seconds in which a request must be answered", 10.0, 0.1, 600),
)


class WebhookSink(Sink):
    """A sink of requests. ``Idempotency-Key`` has the message's id, by which a receiver knows a repetition."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Sink``. Raises ConnectorError that names the setting."""
        self._settings, self._context = settings, context
        self._client: HttpClient | None = None
        with PemFiles(settings) as files:
            trusted = files.client_context(verify_host=settings[VERIFY_HOST])
        self._check_headers()
        self._client = HttpClient(
            LoopNetwork(),
            timeout_s=settings["timeoutSeconds"],
            answer_bytes_max=ANSWER_BYTES_MAX,
            tls=lambda: trusted,
        )

    def _check_headers(self) -> None:
        """Raise ConnectorError for headers that no request can have, without their values, which may be secret."""
        lines = {"contentType": {"Content-Type": self._settings["contentType"]}}
        for setting, headers in (lines | {"headers": self._settings["headers"]}).items():
            for name, value in headers.items():
                try:
                    h11.Request(method="POST", target="/", headers=[("Host", "x"), (name, value)])
                except (h11.LocalProtocolError, UnicodeError) as error:
                    raise ConnectorError(f"configs.{setting}: {name!r} is no header") from error

    async def write(self, records: Sequence[Record]) -> None:
        """See ``Sink``. A message that the receiver refuses fails alone; with EFFECTIVELY_ONCE none overtakes it."""
        todo = iter(records)
        if self._settings["concurrency"] == 1:
            await self._send(todo)
            return
        tasks = TaskScope("webhooks")
        try:
            workers = [
                tasks.spawn("send", self._send(todo)) for _ in range(self._settings["concurrency"])
            ]
            await asyncio.gather(*workers)
        finally:
            await tasks.close()

    async def _send(self, todo: Any) -> None:
        for record in todo:
            try:
                await self._deliver(record)
            except LostEndError:
                raise
            except (ConnectorError, HttpError) as error:
                if self._context.guarantee == "EFFECTIVELY_ONCE":
                    raise
                record.fail(error)
            else:
                record.ack()

    async def _deliver(self, record: Record) -> None:
        """Send a message until it is accepted. Raises LostEndError when the receiver is away, and ConnectorError or
        HttpError when it refuses the message."""
        assert self._client is not None
        body = record.payload
        headers = self._headers(record, body)
        pause_s = FIRST_PAUSE_S
        for left in range(self._settings["retries"], -1, -1):
            problem: ConnectorError | HttpError
            place = self._settings["url"].partition("?")[0]  # options may be secret
            try:
                answer = await self._client.request(
                    self._settings["method"], self._settings["url"], headers=headers, body=body
                )
            except UnusableAnswerError as error:
                problem = error
            except HttpError as error:
                problem = LostEndError(f"{place}: {error}")
            else:
                if 200 <= answer.status < 300:
                    return
                text = answer.body[:ANSWER_CHARS].decode(errors="replace")
                kind = LostEndError if answer.status in AWAY else ConnectorError
                problem = kind(f"{place}: {answer.status} {text}")
                if answer.status < 500 and answer.status not in BUSY:
                    raise problem
            if not left:
                raise problem
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _headers(self, record: Record, body: bytes) -> list[tuple[str, str]]:
        headers = [
            ("Content-Type", self._settings["contentType"]),
            ("Idempotency-Key", record.message_id),
            *self._settings["headers"].items(),
        ]
        user = self._settings.get("user")
        if user:
            login = f"{user}:{self._settings.get('password', '')}"
            value = f"Basic {base64.b64encode(login.encode()).decode()}"
            headers.append(("Authorization", value))
        secret = self._settings.get("signingSecret")
        if secret:
            digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            headers.append(("X-Magnetar-Signature", f"sha256={digest}"))
        return headers

    async def close(self) -> None:
        """See ``Sink``."""
        if self._client is not None:
            self._client.close()


HTTP = BuiltIn(
    "http",
    "Receives requests as messages, and sends messages as requests",
    source=ConnectorEnd(
        WebhookSource,
        SOURCE_SETTINGS,
        "at least once",
        "A request is answered 204 once its message is stored; a client that repeats it may store it twice.",
    ),
    sink=ConnectorEnd(
        WebhookSink,
        SINK_SETTINGS,
        "at least once",
        "A message is acknowledged once its request was answered with 2xx; the header Idempotency-Key tells the "
        "receiver of a repetition.",
    ),
)
