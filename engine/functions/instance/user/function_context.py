"""The Context that user code is given: Pulsar's interface complete, for the message that is processed now."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from engine.base.clock import Clock
from engine.base.names import TopicName
from engine.client.consuming.incoming import Incoming
from engine.client.producing.outgoing import OutgoingMessage
from engine.functions.instance.instance_plan import InstancePlan
from engine.functions.instance.user.secret_providers import SecretsProvider
from engine.functions.instance.user.value_codecs import IDENTITY, Codec, codec_of

CONF = frozenset(
    {
        "properties",
        "partition_key",
        "ordering_key",
        "replication_clusters",
        "disable_replication",
        "event_timestamp",
        "deliver_at",
        "deliver_after",
    }
)
Callback = Callable[[Any, Any], None]
"""Called with (result, message id) as by the client's ``send_async``."""


class StateAccess(Protocol):
    """A function's state, as its thread uses it. Raises StateError."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes) -> None: ...

    def delete(self, key: str) -> None: ...

    def counter(self, key: str) -> int: ...

    def increment(self, key: str, amount: int) -> None: ...

    def delete_counter(self, key: str) -> None: ...


class ContextHost(Protocol):
    """Effects that the context has by its instance. Called from the user's thread."""

    def publish(
        self, topic: str, message: OutgoingMessage, compression: int, callback: Callback | None
    ) -> None: ...

    def acknowledge(self, topic: str, message_id: tuple[int, int, int, int]) -> None: ...

    def record(self, metric: str, value: float) -> None: ...

    def state(self) -> StateAccess: ...

    def pulsar_client(self) -> Any: ...


class FunctionContext:
    """The context of one instance. ``message``: the one that is processed, of a window the last."""

    def __init__(
        self,
        plan: InstancePlan,
        host: ContextHost,
        clock: Clock,
        secrets: SecretsProvider,
        logger: logging.Logger,
    ) -> None:
        self.message: Incoming | None = None
        self.window: Sequence[Incoming] = ()
        self._plan = plan
        self._host = host
        self._clock = clock
        self._secrets = secrets
        self._logger = logger
        self._codecs: dict[str, Codec] = {}
        self._inputs = [spec.topic for spec in plan.inputs]

    def _current(self) -> Incoming:
        if self.message is None:
            raise RuntimeError("no message is processed now")
        return self.message

    # --- the message -----------------------------------------------------------------------------

    def get_message_id(self) -> Any:
        """Return the message's id as the client's MessageId."""
        # Slow to import: most functions never ask.
        from pulsar import MessageId

        position, partition, batch_index, _, _ = self._current().message_id
        return MessageId(partition, position.ledger_id, position.entry_id, batch_index)

    def get_message_key(self) -> str:
        return self._current().key or ""

    def get_partition_key(self) -> str:
        return self._current().key or ""

    def get_ordering_key(self) -> bytes | None:
        """Return the ordering key; None without one."""
        return self._current().ordering_key

    def get_message_eventtime(self) -> int:
        return self._current().event_ms

    def get_message_properties(self) -> dict[str, str]:
        return self._current().properties

    def get_current_message_topic_name(self) -> str:
        return self._current().topic

    def get_message_sequence_id(self) -> int:
        own = self._current().own
        return int(own.sequence_id)

    def get_message_partition_index(self) -> int:
        return int(self._current().source.partition)

    def get_redelivery_count(self) -> int:
        return self._current().redelivery_count

    def get_window_records(self) -> Sequence[Incoming]:
        """Return the messages of the window, in the order of the function's inputs."""
        return self.window

    # --- the function ----------------------------------------------------------------------------

    def get_function_name(self) -> str:
        return self._plan.name

    def get_function_tenant(self) -> str:
        return self._plan.tenant

    def get_function_namespace(self) -> str:
        return self._plan.namespace

    def get_function_id(self) -> str:
        return self._plan.function_id

    def get_instance_id(self) -> str:
        return str(self._plan.instance)

    def get_function_version(self) -> str:
        return self._plan.version

    def get_logger(self) -> logging.Logger:
        return self._logger

    def get_user_config_value(self, key: str) -> Any:
        return self._plan.user_config.get(key)

    def get_user_config_map(self) -> Mapping[str, Any]:
        return self._plan.user_config

    def get_secret(self, secret_key: str) -> Any:
        """Return a secret's value; None where the function's settings do not name it."""
        if secret_key not in self._plan.secrets:
            return None
        return self._secrets.provide_secret(secret_key, self._plan.secrets[secret_key])

    def get_input_topics(self) -> list[str]:
        return self._inputs

    def get_output_topic(self) -> str:
        return self._plan.output.topic

    def get_output_serde_class_name(self) -> str:
        return self._plan.output.serde or "serde.IdentitySerDe"

    def record_metric(self, metric_name: str, metric_value: float) -> None:
        self._host.record(str(metric_name), float(metric_value))

    def get_pulsar_client(self) -> Any:
        """Return the official client, connected as this function."""
        return self._host.pulsar_client()

    # --- effects ---------------------------------------------------------------------------------

    def publish(
        self,
        topic_name: str,
        message: Any,
        serde_class_name: str = "serde.IdentitySerDe",
        properties: Mapping[str, str] | None = None,
        compression_type: Any = None,
        callback: Callback | None = None,
        message_conf: Mapping[str, Any] | None = None,
    ) -> None:
        """Publish without waiting, at most ``pending_max`` at a time. The message processed now is acknowledged after
        its publications are stored. Raises TypeError or ValueError for settings that cannot be used."""
        codec = self._codecs.get(serde_class_name)
        if codec is None:
            serde = "" if serde_class_name in IDENTITY else serde_class_name
            codec = self._codecs[serde_class_name] = codec_of("", serde, {})
        outgoing = self._outgoing(codec.encode(message), properties, message_conf or {})
        compression = 0 if compression_type is None else int(compression_type)
        self._host.publish(str(TopicName.parse(topic_name)), outgoing, compression, callback)

    def _outgoing(
        self, payload: bytes, properties: Mapping[str, str] | None, conf: Mapping[str, Any]
    ) -> OutgoingMessage:
        unknown = set(conf) - CONF
        if unknown:
            raise ValueError(f"message_conf: {', '.join(sorted(unknown))} cannot be set")
        ordering_key = conf.get("ordering_key")
        if isinstance(ordering_key, str):
            ordering_key = ordering_key.encode()
        deliver_at = conf.get("deliver_at", 0)
        after = conf.get("deliver_after")
        if after is not None:
            if not isinstance(after, timedelta):
                raise TypeError("message_conf: deliver_after is no timedelta")
            deliver_at = self._clock.wall_ms() + int(after.total_seconds() * 1000)
        local_only = ("__local__",) if conf.get("disable_replication") else ()
        return OutgoingMessage(
            payload,
            key=conf.get("partition_key"),
            ordering_key=ordering_key,
            properties=conf.get("properties") or properties,
            event_ms=conf.get("event_timestamp") or 0,
            deliver_at_ms=deliver_at or 0,
            replicate_to=local_only or tuple(conf.get("replication_clusters") or ()),
        )

    def ack(self, msgid: Any, topic: str) -> None:
        """Acknowledge a message that this instance was given. Raises ValueError for a topic that is no input."""
        name = TopicName.parse(topic)
        inputs = self._inputs
        if str(name) not in inputs and str(name.partitioned) not in inputs:
            raise ValueError(f"Invalid topicname {topic}")
        self._host.acknowledge(
            str(name.partitioned),
            (msgid.partition(), msgid.ledger_id(), msgid.entry_id(), msgid.batch_index()),
        )

    # --- state -----------------------------------------------------------------------------------

    def incr_counter(self, key: str, amount: int) -> None:
        self._host.state().increment(key, amount)

    def get_counter(self, key: str) -> int:
        return self._host.state().counter(key)

    def del_counter(self, key: str) -> None:
        self._host.state().delete_counter(key)

    def put_state(self, key: str, value: Any) -> None:
        """Store bytes, or text as UTF-8."""
        data = value.encode() if isinstance(value, str) else value
        self._host.state().put(key, bytes(data))

    def get_state(self, key: str) -> bytes | None:
        """Return the bytes; None without the key."""
        return self._host.state().get(key)

    def delete_state(self, key: str) -> None:
        self._host.state().delete(key)
