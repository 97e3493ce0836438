"""The work of one instance, as plain values that go to its process as JSON. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from engine.base.names import FUNCTION_STATE_PREFIX


class ProcessingGuarantee(StrEnum):
    """The moment at which a message counts as processed."""

    AT_LEAST_ONCE = "ATLEAST_ONCE"
    AT_MOST_ONCE = "ATMOST_ONCE"
    EFFECTIVELY_ONCE = "EFFECTIVELY_ONCE"
    MANUAL = "MANUAL"


@dataclass(frozen=True, slots=True)
class InputPlan:
    """One input: a topic, or the topics that match a pattern. ``schema`` and ``serde``: at most one is given."""

    topic: str
    pattern: bool = False
    schema: str = ""
    serde: str = ""
    schema_properties: Mapping[str, str] = field(default_factory=dict)
    type_class: str = ""
    queue_size: int | None = None


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """Topic and form of results. ``topic`` empty: nowhere. ``batch_delay_ms`` None: what is ready goes at
    once, together."""

    topic: str = ""
    schema: str = ""
    serde: str = ""
    schema_properties: Mapping[str, str] = field(default_factory=dict)
    type_class: str = ""
    forward_properties: bool = False
    compression: str = "LZ4"
    batching: bool = True
    batch_delay_ms: int | None = None
    batch_messages_max: int = 1000
    pending_max: int = 1000


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Lengths and intervals, by count or by milliseconds. A sliding interval of None: windows do not overlap.

    ``timestamps``: ``module.Class`` with ``extract_timestamp(input)``, for windows by event time.
    """

    count: int | None = None
    slide_count: int | None = None
    length_ms: int | None = None
    slide_ms: int | None = None
    timestamps: str = ""
    late_topic: str = ""
    max_lag_ms: int = 0
    watermark_every_ms: int = 1000


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """All that the process of an instance receives. ``code``: folders and files for ``sys.path``, first to last.

    ``retries`` None: a failed message is redelivered for ever. ``secrets``: by name, what the provider is given.
    ``connector``: the settings of a source or sink. ``lease_end_s``: time of the monotonic clock at which the process
    ends itself unless the lease is renewed; None: never.
    """

    tenant: str
    namespace: str
    name: str
    class_name: str
    function_id: str = ""
    version: str = "0"
    instance: int = 0
    parallelism: int = 1
    component: str = "function"
    builtin: str = ""
    code: Sequence[str] = ()
    guarantee: ProcessingGuarantee = ProcessingGuarantee.AT_LEAST_ONCE
    retain_ordering: bool = False
    retain_key_ordering: bool = False
    failover: bool = False
    key_shared: bool = False
    inputs: Sequence[InputPlan] = ()
    subscription: str = ""
    from_earliest: bool = False
    skip_to_latest: bool = False
    timeout_ms: int = 0
    nack_delay_ms: int = 60_000
    retries: int | None = None
    dead_letter_topic: str = ""
    output: OutputPlan = OutputPlan()
    log_topic: str = ""
    user_config: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict)
    secrets_provider: str = "clear"
    secrets_settings: Mapping[str, str] = field(default_factory=dict)
    window: WindowPlan | None = None
    connector: Mapping[str, Any] = field(default_factory=dict)
    cpu: float = 0.0
    """Cores that the function was given."""
    cpu_limit: str = ""
    """The limit of cores in words, or why there is none."""
    own_user: bool = False
    """True when no other process has the user of this one."""
    ram_bytes: int = 0
    disk_bytes: int = 0
    service_url: str = ""
    token_file: str = ""
    role: str = ""
    """The role that it logs in with, where a worker of ours gave it one."""
    trust_certs_file: str = ""
    verify_hostname: bool = True
    cluster: str = ""
    worker_id: str = ""
    folder: str = ""
    lease_end_s: float | None = None

    @property
    def full_name(self) -> str:
        """The function's name with its tenant and namespace."""
        return f"{self.tenant}/{self.namespace}/{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its metrics, Apache's."""
        return {
            "tenant": self.tenant,
            "namespace": f"{self.tenant}/{self.namespace}",
            "name": self.name,
            "instance_id": str(self.instance),
            "cluster": self.cluster,
            "fqfn": self.full_name,
        }

    @property
    def ordered(self) -> bool:
        """True when a failed message holds up those behind it."""
        return (
            self.retain_ordering
            or self.retain_key_ordering
            or self.guarantee is ProcessingGuarantee.EFFECTIVELY_ONCE
        )

    @property
    def state_topic(self) -> str:
        """The topic that keeps the function's state."""
        return f"persistent://{self.tenant}/{self.namespace}/{FUNCTION_STATE_PREFIX}{self.name}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse what ``to_json`` wrote."""
        fields = json.loads(text)
        fields["guarantee"] = ProcessingGuarantee(fields["guarantee"])
        fields["inputs"] = [InputPlan(**spec) for spec in fields["inputs"]]
        fields["output"] = OutputPlan(**fields["output"])
        if fields["window"] is not None:
            fields["window"] = WindowPlan(**fields["window"])
        return cls(**fields)
