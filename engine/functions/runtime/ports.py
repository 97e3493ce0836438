"""Start, watch and question of one instance of a function, source or sink: protocols and values."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class InstanceTrouble:
    """An exception of an instance. ``text``: its whole traceback, cut to a bound. ``at_ms``: epoch milliseconds."""

    text: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class InstanceUser:
    """A user of the operating system. ``own``: one instance alone has it."""

    uid: int
    gid: int
    own: bool = False


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """All that an instance is started with.

    ``function``: the record FunctionMetaData of ``engine.functions.definitions``. ``package``: the file of the user's
    code as fetched; None for a built-in connector. ``folder``: its own working folder, which the runtime makes and
    removes. ``token_file``: a file with the token of the function's own role; None: Apache's, if any.
    ``environment``: all variables that user code may see besides PATH, HOME, TMPDIR, LANG and TZ. ``lease_end`` returns
    the time of this machine's monotonic clock at which the instance must have ended, unless ``lease_until`` names a
    later one; None: it may run for ever.
    """

    function: Any
    instance: int
    package: Path | None
    folder: Path
    service_url: str
    web_url: str = ""
    cluster: str = ""
    worker_id: str = ""
    token_file: Path | None = None
    trust_certs_file: Path | None = None
    verify_hostname: bool = True
    secrets_provider: str = "clear"
    """``clear``, ``environment``, or ``module.Class`` of a provider in the worker's own installation."""
    secrets_settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    lease_end: Callable[[], float] | None = None
    brokers: Callable[[], Awaitable[str]] | None = None
    """Returns the service URL of the brokers that there are now, and raises MagnetarError while that is not known.
    None: ``service_url`` counts for as long as the instance runs."""
    user: InstanceUser | None = None
    """The user that its process runs as; None: the worker's own."""


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The state of an instance, as Apache's FunctionStatus. ``error``: why it does not run; empty while it does.

    None: not known, as before the first message. Lists of exceptions are newest first, at most ten.
    """

    running: bool
    error: str = ""
    received: int = 0
    processed: int = 0
    user_exceptions: int = 0
    latest_user_exceptions: Sequence[InstanceTrouble] = ()
    system_exceptions: int = 0
    latest_system_exceptions: Sequence[InstanceTrouble] = ()
    source_exceptions: int = 0
    latest_source_exceptions: Sequence[InstanceTrouble] = ()
    sink_exceptions: int = 0
    latest_sink_exceptions: Sequence[InstanceTrouble] = ()
    average_latency_ms: float | None = None
    last_invocation_ms: int | None = None
    written: int = 0
    """Records that a source or sink wrote."""
    cpu_limit: str = ""
    """Cores that it may use, or why they are not limited; empty where none were given."""


@dataclass(frozen=True, slots=True)
class IntervalStats:
    """Counts of an instance since its start, or in the last whole minute. ``average_latency_ms`` None: nothing was
    processed."""

    received: int = 0
    processed: int = 0
    user_exceptions: int = 0
    system_exceptions: int = 0
    average_latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceStats:
    """Statistics of an instance, as Apache's MetricsData. ``user_metrics``: ``user_metric_NAME_count`` and ``_sum``."""

    total: IntervalStats
    last_minute: IntervalStats
    last_invocation_ms: int | None = None
    user_metrics: Mapping[str, float] = field(default_factory=dict)
    latency_buckets: Mapping[str, int] = field(default_factory=dict)
    """Invocations at most as long as each bound in milliseconds, cumulative; the last bound is ``+Inf``."""


@dataclass(frozen=True, slots=True)
class ExitReason:
    """The end of an instance. ``expected``: it was asked to stop. ``text``: what status shows."""

    expected: bool
    text: str = ""
    status: int | None = None
    """The exit status of its process; negative: the signal that ended it."""


class RunningInstance(Protocol):
    """A started instance. Questions raise InstanceError when it does not answer within their time."""

    @property
    def pid(self) -> int:
        """The process; the worker's own for an instance on a thread."""
        ...

    def lease_until(self, end_s: float) -> None:
        """Let the instance run until this time of the monotonic clock. What runs in a process of its own ends itself
        then."""
        ...

    async def status(self) -> InstanceStatus: ...

    async def stats(self) -> InstanceStats: ...

    async def metrics(self) -> str:
        """Return the lines of Prometheus of this instance."""
        ...

    async def trigger(self, topic: str, data: bytes) -> bytes:
        """Run the function on a message of ``topic`` that was published nowhere, and return the output's bytes.

        Raises InstanceError with the function's exception.
        """
        ...

    async def state_get(self, key: str) -> Mapping[str, Any] | None:
        """Return ``{"value": bytes | None, "number": int | None, "version": int}``; None without the key."""
        ...

    async def state_put(self, key: str, value: bytes | None, number: int | None) -> None: ...

    async def log_tail(self, lines: int) -> str:
        """Return the last lines of its log."""
        ...

    async def stop(self, grace_s: float) -> None:
        """End it: in order within ``grace_s``, else by force. Safe to repeat; its folder is removed."""
        ...

    async def wait(self) -> ExitReason:
        """Return when it has ended, whatever the cause. Cancel-safe; more than one may wait."""
        ...


class InstanceRuntime(Protocol):
    """Starts instances of one kind: in processes or on threads."""

    async def start(self, spec: InstanceSpec) -> RunningInstance:
        """Start an instance and return it as soon as its process exists; ``status`` says when it runs.

        Raises InstanceError where it cannot be started: the package cannot be unpacked or its requirements cannot be
        installed. The text is for the function's owner.
        """
        ...
