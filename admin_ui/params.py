"""Parameters of the console's calls and channels: checks that GETs and the live feed share."""

from engine.base.errors import InvalidField
from engine.base.names import DOMAINS, NamespaceName, TopicName

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
OFFSET_MAX = 1 << 31
OLDER_MAX_S = 10 * 366 * 86_400
Params = dict[str, str]
"""Values by name; an empty value counts as absent."""


def window(params: Params, limit_max: int = LIMIT_MAX) -> tuple[int, int]:
    """Return ``offset`` and ``limit`` of a list request. Raises InvalidField."""
    return (
        number(params, "offset", 0, 0, OFFSET_MAX),
        number(params, "limit", min(LIMIT_DEFAULT, limit_max), 1, limit_max),
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


def topic_name(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    """Return the topic of a path; ``namespace`` as in ``split_topic``. Raises InvalidField for an unknown domain,
    InvalidNameError for a wrong name."""
    if domain not in DOMAINS:
        raise InvalidField("domain", "must be persistent or non-persistent")
    return NamespaceName.parse(f"{tenant}/{namespace}").topic(topic, domain)
