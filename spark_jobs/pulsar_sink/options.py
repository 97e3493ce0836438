"""Options of the ``pulsar`` sink, parsed once on the driver. Pure.

They are part of Spark's plans, which its log and its pages show. So credentials are files, and an option that would
hold a secret itself is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.base.addresses import CLEAR, ENCRYPTED, ServiceUrl
from engine.base.errors import InvalidNameError
from engine.base.names import TopicName
from spark_jobs.pulsar_source.options import OptionError

BATCH_MESSAGES = 1000
BATCH_BYTES = 128 * 1024
SEND_TIMEOUT_S = 30
CODECS = {"none": 0, "lz4": 1, "zlib": 2, "zstd": 3, "snappy": 4}
METHODS = ("token", "basic", "tls")
NAME_CHARS_MAX = 200
_NAME = re.compile(rf"[-=:.\w]{{1,{NAME_CHARS_MAX}}}", re.ASCII)
_SECRETS = ("authparams", "pulsar.client.authparams", "authentication.token", "token", "password")
"""Options of other connectors that hold a secret, in lower case."""


class Guarantee(Enum):
    """Promise for the messages of a task that runs again.

    BEST is exactly once where deduplication is on, at least once elsewhere. EXACTLY_ONCE fails where it is off.
    AT_LEAST_ONCE publishes all rows of a task again, which needs no order of the rows.
    """

    BEST = ""
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed options.

    - ``brokers``: service URLs, all of them in TLS or none
    - ``topic``: full name, empty when the column ``topic`` names it
    - ``producer_name``: beginning of the producers' names
    - ``write_id``: identity of a batch write; empty: a new one
    - ``order_by``: columns by which a task sorts its rows
    - ``method``, ``credentials_file``: how to log in; empty without
    - ``trust_file``, ``certificate_file``, ``key_file``: PEM files
    """

    brokers: tuple[str, ...]
    topic: str = ""
    guarantee: Guarantee = Guarantee.BEST
    producer_name: str = "spark"
    write_id: str = ""
    order_by: tuple[str, ...] = ()
    batching: bool = True
    batch_messages: int = BATCH_MESSAGES
    batch_bytes: int = BATCH_BYTES
    codec: int = 0
    chunking: bool = False
    send_timeout_s: int = SEND_TIMEOUT_S
    method: str = ""
    credentials_file: str = ""
    trust_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    verify_hostname: bool = True

    @property
    def encrypted(self) -> bool:
        """True when brokers are connected to in TLS."""
        return ServiceUrl.parse(self.brokers[0]).encrypted


def parse(options: Mapping[str, str]) -> SinkOptions:
    """Parse options. Their names are case-insensitive, because Spark may change their case. Raises OptionError."""
    by_name = {name.lower(): value for name, value in options.items()}
    for name in _SECRETS:
        if name in by_name:
            raise OptionError(
                f"option {name} is refused: plans and logs would show its value. Put the credentials into a file that"
                " every task can read, and name it in option authentication.file"
            )
    guarantee = by_name.get("deliveryguarantee", "")
    if guarantee not in [choice.value for choice in Guarantee]:
        raise OptionError(
            f"option deliveryGuarantee must be exactly-once or at-least-once, not {guarantee!r}"
        )
    return SinkOptions(
        brokers=_brokers(by_name.get("serviceurl") or by_name.get("service.url", "")),
        topic=full_name(by_name["topic"], "option topic") if by_name.get("topic") else "",
        guarantee=Guarantee(guarantee),
        producer_name=_name(by_name, "producerName", "spark"),
        write_id=_name(by_name, "writeId", ""),
        order_by=tuple(
            name.strip() for name in by_name.get("orderby", "").split(",") if name.strip()
        ),
        batching=_flag(by_name, "batchingEnabled", True),
        batch_messages=_integer(by_name, "batchingMaxMessages", BATCH_MESSAGES, 1, 100_000),
        batch_bytes=_integer(by_name, "batchingMaxBytes", BATCH_BYTES, 1, 4 << 20),
        codec=CODECS[_choice(by_name, "compression", "none", tuple(CODECS))],
        chunking=_flag(by_name, "chunkingEnabled", False),
        send_timeout_s=_integer(by_name, "sendTimeout", SEND_TIMEOUT_S, 1, 86_400),
        **_access(by_name),
    )


def full_name(topic: str, what: str) -> str:
    """Return the full name of a topic. Raises OptionError, which names ``what``."""
    try:
        return str(TopicName.parse(topic))
    except InvalidNameError as error:
        raise OptionError(f"{what}: {error}") from error


def _brokers(text: str) -> tuple[str, ...]:
    """Return the URLs of ``pulsar://host:port,host:port``."""
    scheme = ENCRYPTED if text.startswith(ENCRYPTED) else CLEAR
    hosts = text.removeprefix(scheme).split(",") if text.startswith(scheme) else ()
    urls = tuple(f"{scheme}{host.strip().rstrip('/')}" for host in hosts)
    try:
        if not urls:
            raise ValueError
        for url in urls:
            ServiceUrl.parse(url)
    except ValueError:
        raise OptionError(
            "option serviceUrl must be pulsar://host:port or, in TLS, pulsar+ssl://host:port, several hosts with"
            f" commas between, not {text!r}"
        ) from None
    return urls


def _access(by_name: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields about credentials and TLS."""
    file = by_name.get("authentication.file", "")
    certificate = by_name.get("tls.certificatefile", "")
    key = by_name.get("tls.keyfile", "")
    method = by_name.get("authentication.method", "token" if file else "")
    if method not in ("", *METHODS):
        raise OptionError(
            f"option authentication.method must be token, basic or tls, not {method!r}"
        )
    if method in ("token", "basic") and not file:
        raise OptionError(f"option authentication.file must name the file of the {method}")
    if method == "tls" and not certificate:
        raise OptionError("options tls.certificateFile and tls.keyFile must be set for method tls")
    if bool(certificate) != bool(key):
        raise OptionError("options tls.certificateFile and tls.keyFile must be set together")
    return {
        "method": method,
        "credentials_file": file,
        "trust_file": by_name.get("tls.trustcertsfile", ""),
        "certificate_file": certificate,
        "key_file": key,
        "verify_hostname": _flag(by_name, "tls.hostnameVerification", True),
    }


def _choice(by_name: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> str:
    value = by_name.get(name.lower(), default).lower()
    if value not in choices:
        raise OptionError(f"option {name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def _name(by_name: Mapping[str, str], name: str, default: str) -> str:
    value = by_name.get(name.lower(), default)
    if value != default and _NAME.fullmatch(value) is None:
        raise OptionError(
            f"option {name} must be 1 to {NAME_CHARS_MAX} letters, digits and - = : . _, not {value!r}"
        )
    return value


def _integer(by_name: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    value = by_name.get(name.lower(), str(default))
    if not (value.isascii() and value.isdigit() and low <= int(value) <= high):
        raise OptionError(
            f"option {name} must be a whole number from {low} to {high}, not {value!r}"
        )
    return int(value)


def _flag(by_name: Mapping[str, str], name: str, default: bool) -> bool:
    value = by_name.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise OptionError(f"option {name} must be true or false, not {value!r}")
    return value == "true"
