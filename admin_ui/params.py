"""Parameters of the console's calls and channels: checks that GETs and the live feed share."""

import re
from collections.abc import Collection

from engine.admin.api.arguments import LONG_MAX, MessagePosition
from engine.admin.lag import LagCause
from engine.base.errors import InvalidField
from engine.base.names import DOMAINS, NamespaceName, TopicName
from gateway.services.index.selection import Chosen

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
OFFSET_MAX = 1 << 31
OLDER_MAX_S = 10 * 366 * 86_400
CAUSES = ("any", *(cause.value for cause in LagCause))
"""Problems by which lists can be filtered; ``any`` stands for all that are more than information."""
_POSITION = re.compile(r"(\d{1,19}):(\d{1,19})(?::(\d{1,9}))?")
Params = dict[str, str]
"""Values by name; an empty value counts as absent."""


def window(params: Params, limit_max: int = LIMIT_MAX) -> tuple[int, int]:
    """Return ``offset`` and ``limit`` of a list request. Raises InvalidField."""
    return (
        number(params, "offset", 0, 0, OFFSET_MAX),
        number(params, "limit", min(LIMIT_DEFAULT, limit_max), 1, limit_max),
    )


def sort_of(params: Params, fields: Collection[str], default: str) -> str:
    """Return the order of a list request: one of ``fields``, ``-`` in front for descending. Raises InvalidField."""
    sort = params.get("sort") or default
    if sort.removeprefix("-") not in fields:
        raise InvalidField(
            "sort", f"must be one of {', '.join(fields)}, '-' in front to turn round"
        )
    return sort


def choice(params: Params, name: str, allowed: Collection[str]) -> str:
    """Return a value of a request that is one of ``allowed``; empty without one. Raises InvalidField."""
    value = params.get(name, "")
    if value not in ("", *allowed):
        raise InvalidField(name, f"must be one of {', '.join(allowed)}")
    return value


def list_choice(params: Params, fields: Collection[str], order: str) -> Chosen:
    """Return the filter and order of a request for a list with ``fields``; ``order``: the one without a choice. Raises
    InvalidField."""
    sort = sort_of(params, fields, order)
    return Chosen(
        q=params.get("q", ""),
        tenant=params.get("tenant", ""),
        namespace=params.get("namespace", ""),
        domain=choice(params, "domain", DOMAINS),
        sort=sort,
        attention=choice(params, "attention", CAUSES),
        older_s=number(params, "older_s", 0, 0, OLDER_MAX_S),
    )


def number(params: Params, name: str, default: int, low: int, high: int) -> int:
    """Return a whole number of a request, from ``low`` to ``high``. Raises InvalidField."""
    text = params.get(name, "")
    if text == "":
        return default
    try:
        value = int(text)
    except ValueError:
        value = low - 1  # refused below, with the same message
    if not low <= value <= high:
        raise InvalidField(name, f"must be a whole number from {low} to {high}")
    return value


def message_position(text: str, field: str) -> MessagePosition:
    """Return the position of a message, given as ledger:entry or ledger:entry:index. Raises InvalidField."""
    at = _POSITION.fullmatch(text)
    numbers = [int(part) for part in at.groups(default="-1")] if at else []
    if not numbers or max(numbers) >= LONG_MAX:
        raise InvalidField(field, "must be ledger:entry or ledger:entry:index")
    return MessagePosition(numbers[0], numbers[1], numbers[2])


def topic_name(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    """Return the topic of a path; ``namespace`` as in ``split_topic``. Raises InvalidField for an unknown domain,
    InvalidNameError for a wrong name."""
    if domain not in DOMAINS:
        raise InvalidField("domain", "must be persistent or non-persistent")
    return NamespaceName.parse(f"{tenant}/{namespace}").topic(topic, domain)
