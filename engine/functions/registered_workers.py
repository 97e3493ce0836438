"""The workers that are registered in the metadata store, their leader, and those that are drained."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, fields

from engine.base.names import decode_name
from engine.metadata import paths
from engine.metadata.records import decode_json
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker and its private HTTP port; ``rpc_url`` has no final slash."""

    id: str
    host: str
    port: int
    rpc_url: str
    started_ms: int
    rpc_url_tls: str = ""
    """The same in TLS; empty without such a port."""
    web_host: str = ""
    web_port: int = 0
    """Address of the REST interface, at which Apache's workers call this one; empty without."""

    @property
    def _address(self) -> tuple[str, int]:
        """The address at which other workers and clients reach it."""
        return (self.web_host, self.web_port) if self.web_host else (self.host, self.port)

    @property
    def label(self) -> str:
        """The name of its consumer in the coordination topic, as Apache's workers have it."""
        host, port = self._address
        return f"{self.id}:{host}:{port}"

    @property
    def info(self) -> dict[str, object]:
        """Pulsar's WorkerInfo."""
        host, port = self._address
        return {"workerId": self.id, "workerHostname": host, "port": port}

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes, path: str) -> "WorkerRecord":
        """Decode a stored registration; what a later version has added is left out. Raises ValueError."""
        record = decode_json(value, path)
        known = {field.name for field in fields(cls)}
        try:
            return cls(**{name: record[name] for name in record if name in known})
        except TypeError as error:
            raise ValueError(f"{path}: not the registration of a worker") from error


async def registered_workers(store: MetadataStore) -> dict[str, WorkerRecord]:
    """Return the registered workers by id, in order of id. Raises the store's errors."""
    try:
        names = await store.children(paths.FUNCTION_WORKERS)
    except NoNodeError:
        return {}
    workers = {}
    for path in [f"{paths.FUNCTION_WORKERS}/{name}" for name in names]:
        with suppress(NoNodeError):
            value, _ = await store.get(path)
            record = WorkerRecord.decode(value, path)
            workers[record.id] = record
    return dict(sorted(workers.items()))


async def leading_worker(store: MetadataStore) -> str | None:
    """Return the id of the worker that leads, None without one. Raises the store's errors."""
    try:
        value, _ = await store.get(paths.FUNCTION_LEADER)
    except NoNodeError:
        return None
    return value.decode()


async def draining_workers(store: MetadataStore) -> set[str]:
    """Return the ids of the workers that are drained. Raises the store's errors."""
    try:
        return set(map(decode_name, await store.children(paths.FUNCTION_DRAINS)))
    except NoNodeError:
        return set()


async def drain_worker(store: MetadataStore, worker: str) -> None:
    """Mark a worker as drained, until it starts again. Raises the store's errors."""
    with suppress(NodeExistsError):
        await store.create(paths.function_drain(worker), make_parents=True)
