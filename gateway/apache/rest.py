"""Requests to the REST interface of an Apache Pulsar cluster: credentials, redirects, time-outs and errors."""

import json
import logging
import re
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from engine.base.errors import (
    AlreadyExists,
    Conflict,
    Failed,
    Forbidden,
    InvalidRequest,
    NotAcceptable,
    NotFound,
    NotReady,
    PreconditionFailed,
    Refusal,
    Unprocessable,
    Unsupported,
)
from engine.base.names import TopicName
from engine.net.http_client import Answer, HttpClient, HttpError
from engine.net.network import Network
from engine.net.tls import TlsFileError
from gateway.apache_settings import ApacheCluster

log = logging.getLogger(__name__)

TIMEOUT_S = 12.0
"""Time for one request with its answer, below the time-out of a call."""
ANSWER_BYTES_MAX = 128 << 20
"""Size of an answer, such as the statistics of all topics of a broker: 1.6 kB a topic."""
REDIRECTS_MAX = 3
REDIRECTED = (302, 307)
REASON_MAX = 500
_FAILURE = re.compile(
    r"--- An unexpected error occurred in the server --- Message: (.*?) Stacktrace:"
)

_REFUSALS: dict[int, type[Refusal]] = {
    400: InvalidRequest,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    405: Unsupported,
    406: NotAcceptable,
    409: Conflict,
    412: PreconditionFailed,
    422: Unprocessable,
    503: NotReady,
    504: NotReady,
}


class ApacheRest:
    """The REST interface of one cluster, for one event loop. ``requests`` and ``received_bytes`` count what was asked
    of it."""

    def __init__(self, cluster: ApacheCluster, network: Network) -> None:
        self.cluster = cluster
        self.requests = 0
        self.received_bytes = 0
        self.hosts: frozenset[str] = frozenset()
        """``host:port`` of the registered brokers: requests are redirected to these only, with the token."""
        secure = urlsplit(cluster.url).scheme == "https"
        self._client = HttpClient(
            network,
            timeout_s=TIMEOUT_S,
            answer_bytes_max=ANSWER_BYTES_MAX,
            tls=cluster.files.reloaded(300.0) if secure else None,
        )

    def close(self) -> None:
        self._client.close()

    def broker_url(self, broker_id: str) -> str:
        """Return the URL of a broker by its id ``host:port``."""
        return f"{urlsplit(self.cluster.url).scheme}://{broker_id}"

    async def get(self, path: str, *, at: str = "", **query: Any) -> Any:
        """Return the decoded answer to a GET. ``at``: URL of a broker; empty: that of the cluster."""
        return self._decoded(await self.call("GET", path, at=at, **query), path)

    async def call(
        self, method: str, path: str, body: Any = None, *, at: str = "", **query: Any
    ) -> bytes:
        """Send a request and return the body of its answer. Raises Refusal; NotReady where the cluster does not answer.

        A change that was not answered may have happened. It is never sent twice, except to where a broker redirects it.
        """
        return (await self._answer(method, path, body, at, query)).body

    async def send(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send a change, or a request that is a POST, and return its decoded answer. Raises as ``call``."""
        return self._decoded(await self.call(method, path, body, **query), path)

    async def get_with_fields(self, path: str) -> Answer:
        """Return the answer to a GET with its header fields. Raises as ``call``."""
        return await self._answer("GET", path, None, "", {}, with_fields=True)

    async def _answer(
        self,
        method: str,
        path: str,
        body: Any,
        at: str,
        query: dict[str, Any],
        *,
        with_fields: bool = False,
    ) -> Answer:
        text = urlencode({name: _text(value) for name, value in query.items() if value is not None})
        url = f"{at or self.cluster.url}{path}{'?' if text else ''}{text}"
        data = b"" if body is None else json.dumps(body).encode()
        headers = [("Accept", "application/json")]
        if body is not None:
            headers.append(("Content-Type", "application/json"))
        for _ in range(REDIRECTS_MAX):
            self.requests += 1
            try:
                request = [*headers, *self._credentials()]
                answer = await self._client.request(
                    method, url, headers=request, body=data, with_fields=with_fields
                )
                self.received_bytes += len(answer.body)
                if answer.status not in REDIRECTED:
                    break
                # Repeated for its address: what was redirected was not performed.
                location = await self._location(method, url, request, data)
            except (HttpError, OSError, TlsFileError) as error:
                raise NotReady(f"{self._who(url)} does not answer: {error}") from error
            url = self._redirected(url, location)
        else:
            raise NotReady(f"{self._who(url)} redirects {method} {path} without an end")
        if answer.status >= 300:
            raise self._refusal(answer.status, answer.body, method, path)
        return answer

    async def _location(
        self, method: str, url: str, headers: list[tuple[str, str]], data: bytes
    ) -> str:
        answer = await self._client.open(method, url, headers=headers, body=data)
        answer.close()
        return answer.location if answer.status in REDIRECTED else url

    def _credentials(self) -> list[tuple[str, str]]:
        if not self.cluster.token_file:
            return []
        try:
            token = self.cluster.token().decode("ascii")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no token"
            raise NotReady(
                f"The token file of {self.cluster.name} cannot be read: {reason}"
            ) from None
        return [("Authorization", f"Bearer {token}")]

    def _redirected(self, url: str, location: str) -> str:
        """Return where a request is sent again: a registered broker, or the cluster's own address. Raises NotReady."""
        target, base = urlsplit(location), urlsplit(self.cluster.url)
        known = target.netloc in self.hosts or target.netloc == base.netloc
        if target.scheme != base.scheme or not known:
            raise NotReady(
                f"{self._who(url)} redirects to {target.scheme}://{target.netloc}, which is no registered broker: "
                "the token is not sent there"
            )
        return location

    def _who(self, url: str) -> str:
        return f"{self.cluster.name} ({urlsplit(url).netloc})"

    def _refusal(self, status: int, content: bytes, method: str, path: str) -> Refusal:
        reason = reason_of(content) or f"status {status}"
        kind = _REFUSALS.get(status, Failed)
        if status == 409 and "already exist" in reason.lower():
            kind = AlreadyExists
        if status in (401, 403):
            reason = f"{self.cluster.name} refuses {method} {path.partition('?')[0]}: {reason}"
        return kind(reason)

    def _decoded(self, content: bytes, path: str) -> Any:
        try:
            return json.loads(content or b"null")
        except ValueError as error:
            raise Failed(f"{self.cluster.name} answers no JSON to {path}: {error}") from None


def reason_of(content: bytes) -> str:
    """Return the reason in the body of a refusal, shortened."""
    try:
        body = json.loads(content)
    except ValueError:
        body = content.decode("utf-8", "replace") if not content.lstrip().startswith(b"<") else ""
    if isinstance(body, dict):
        body = body.get("reason") or body.get("message") or ""
    text = " ".join(str(body or "").split())
    if failure := _FAILURE.match(text):  # the rest is Java's stack trace
        text = failure[1]
    return text[:REASON_MAX]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def part(text: str) -> str:
    """Return a name as one segment of a path."""
    return quote(text, safe="")


def topic_path(topic: TopicName, *after: str) -> str:
    """Return the path of a topic below the admin REST, with more segments after it."""
    domain = "persistent" if topic.persistent else "non-persistent"
    segments = (*str(topic.namespace).split("/"), topic.local, *after)
    return f"/admin/v2/{domain}/{'/'.join(map(part, segments))}"


def namespace_path(namespace: object, *after: str) -> str:
    """Return the path of a namespace below the admin REST, with more segments after it."""
    return f"/admin/v2/namespaces/{'/'.join(map(part, (*str(namespace).split('/'), *after)))}"
