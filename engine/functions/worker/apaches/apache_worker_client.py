"""Calls of the REST interface of Apache's workers, as these call each other."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

from engine.admin.api.arguments import JsonObject
from engine.base.entropy import Entropy
from engine.base.errors import Conflict, InvalidRequest, NotFound, NotReady, Refusal
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionName, encode
from engine.functions.ports import Component
from engine.functions.worker.apaches.apache_members import ApacheWorker
from engine.net.http_client import Answer, HttpClient, HttpError, NotReachedError
from engine.net.network import Network
from engine.net.tls import ContextSource

Credentials = Callable[[bytes], tuple[str, bytes]]
"""Returns (method, data) as for brokers."""
ANSWER_BYTES_MAX = 4 << 20
OUT_OF_DATE = "out of date"
"""A part of the texts by which Apache's leader refuses a version that is not above the stored one."""


class ApacheWorkerClient:
    """Caller of Apache's workers, in TLS only with ``tls``.

    Redirects are not followed: the worker that a call is for is known, and a redirect says that it is not so any more.
    Every call raises NotReady when the worker does not answer, is not responsible, or refuses the credentials; its
    other refusals are those of the same status.
    """

    def __init__(
        self,
        network: Network,
        entropy: Entropy,
        *,
        timeout_s: float,
        credentials: Credentials | None = None,
        tls: ContextSource | None = None,
    ) -> None:
        self._http = HttpClient(
            network, timeout_s=timeout_s, answer_bytes_max=ANSWER_BYTES_MAX, tls=tls
        )
        self._entropy = entropy
        self._scheme = "http" if tls is None else "https"
        self._credentials = credentials

    def close(self) -> None:
        """Close all connections; pending calls fail."""
        self._http.close()

    async def write(
        self, leader: ApacheWorker, metadata: pb.FunctionMetaData, *, delete: bool
    ) -> None:
        """Have the leader store a function's change. Raises Conflict when the function has a later version."""
        name = FunctionName.of(metadata.functionDetails)
        boundary = self._entropy.hex(16)
        path = f"/admin/v3/functions/leader/{_encoded(name)}"
        form = f"multipart/form-data; boundary={boundary}"
        await self._call(
            *(leader, "PUT", path), body=_form(boundary, encode(metadata), delete), form=form
        )

    async def status(
        self, worker: ApacheWorker, component: Component, name: FunctionName, instance: int
    ) -> JsonObject:
        """Return the status of an instance that the worker runs."""
        return await self._read(worker, f"{_path(component, name)}/{instance}/status")

    async def stats(
        self, worker: ApacheWorker, component: Component, name: FunctionName, instance: int
    ) -> JsonObject:
        """Return the metrics of an instance of a function that the worker runs."""
        return await self._read(worker, f"{_path(component, name)}/{instance}/stats")

    async def restart(
        self, worker: ApacheWorker, component: Component, name: FunctionName, instance: int
    ) -> None:
        """Restart an instance that the worker runs."""
        await self._call(worker, "POST", f"{_path(component, name)}/{instance}/restart")

    async def is_ready(self, leader: ApacheWorker) -> bool:
        """Return whether the leader schedules."""
        try:
            await self._call(leader, "GET", "/admin/v2/worker/cluster/leader/ready")
        except Refusal:
            return False
        return True

    async def rebalance(self, leader: ApacheWorker) -> None:
        """Have the leader distribute the instances evenly."""
        await self._call(leader, "PUT", "/admin/v2/worker/rebalance")

    async def drain(self, leader: ApacheWorker, worker: str) -> None:
        """Have the leader move everything away from a worker."""
        await self._call(leader, "PUT", _drain(worker))

    async def drain_status(self, leader: ApacheWorker, worker: str) -> JsonObject:
        """Return LongRunningProcessStatus of a drain."""
        return await self._read(leader, _drain(worker))

    async def _read(self, worker: ApacheWorker, path: str) -> JsonObject:
        """Return the JSON object at a path."""
        return _parsed(worker, await self._call(worker, "GET", path))

    async def _call(
        self, worker: ApacheWorker, method: str, path: str, *, body: bytes = b"", form: str = ""
    ) -> Answer:
        """Return the answer of a call that succeeded. Raises the refusals of the class."""
        headers = [("Accept", "application/json"), *self._authorization()]
        if form:
            headers.append(("Content-Type", form))
        url = f"{self._scheme}://{worker.host}:{worker.port}{path}"
        try:
            answer = await self._http.request(method, url, headers=headers, body=body)
        except NotReachedError as error:
            raise NotReady(f"Worker {worker.id} does not answer: {error}") from error
        except HttpError as error:
            after = "" if method == "GET" else "; the change may have happened"
            raise NotReady(f"Worker {worker.id} does not answer: {error}{after}") from error
        if 200 <= answer.status < 300:
            return answer
        raise _refusal(worker, answer)

    def _authorization(self) -> list[tuple[str, str]]:
        if self._credentials is None:
            return []
        method, data = self._credentials(b"")
        if method == "token":
            return [("Authorization", f"Bearer {data.decode()}")]
        if method == "basic":
            return [("Authorization", f"Basic {base64.b64encode(data).decode()}")]
        return []


def _refusal(worker: ApacheWorker, answer: Answer) -> Refusal:
    reason = _reason(answer)
    if answer.status == 400:
        return Conflict(reason) if OUT_OF_DATE in reason else InvalidRequest(reason)
    if answer.status == 404:
        return NotFound(reason)
    if 300 <= answer.status < 400:
        return NotReady(f"Worker {worker.id} is not responsible any more; try again")
    if answer.status in (401, 403):
        return NotReady(f"Worker {worker.id} refuses this worker's credentials: {reason}")
    # Also 500: Apache's leader answers it when it has lost its place, and when a write failed.
    return NotReady(f"Worker {worker.id} answered {answer.status}: {reason}")


def _reason(answer: Answer) -> str:
    """Return the reason of a refusal, which may have no JSON."""
    try:
        parsed = json.loads(answer.body)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("reason"):
        return str(parsed["reason"])
    return answer.body[:200].decode("utf-8", "replace").strip() or f"status {answer.status}"


def _parsed(worker: ApacheWorker, answer: Answer) -> JsonObject:
    """Return the JSON object of an answer. Raises NotReady."""
    try:
        parsed = json.loads(answer.body)
    except ValueError as error:
        raise NotReady(f"Worker {worker.id} gave no usable answer") from error
    if not isinstance(parsed, dict):
        raise NotReady(f"Worker {worker.id} gave no usable answer")
    return parsed


def _path(component: Component, name: FunctionName) -> str:
    return f"/admin/v3/{component}s/{_encoded(name)}"


def _encoded(name: FunctionName) -> str:
    return "/".join(quote(part, safe="") for part in name)


def _drain(worker: str) -> str:
    return f"/admin/v2/worker/leader/drain?workerId={quote(worker, safe='')}"


def _form(boundary: str, metadata: bytes, delete: bool) -> bytes:
    """Return a form with the parts that Apache's leader expects."""
    return (
        f'--{boundary}\r\nContent-Disposition: form-data; name="functionMetaData"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode() + (
        metadata
        + (
            f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="delete"\r\n\r\n'
            f"{str(delete).lower()}\r\n--{boundary}--\r\n"
        ).encode()
    )
