"""Use of the limits that are set on a namespace, by the topic that is closest to each. Pure."""

from typing import Any

from engine.metadata.records import Stored
from engine.tenancy.policies.policy import Level
from engine.tenancy.policies.table import AGE_QUOTA, BY_NAME, SIZE_QUOTA
from gateway.services.index.sums import TenantNumbers

TOPICS_LIMIT = BY_NAME["maxTopicsPerNamespace"]
Body = dict[str, Any]


def has_size_quota(stored: Stored) -> bool:
    """Return whether the namespace limits the size of backlogs."""
    return _limit(SIZE_QUOTA.says(Level.NAMESPACE, stored), "limitSize") is not None


def quotas_of(
    stored: Stored,
    *,
    topics: int,
    numbers: TenantNumbers | None,
    largest_bytes: int | None,
    now_ms: int,
) -> list[Body]:
    """Return the limits of a namespace with what is used of them, the fullest first and unknown ones last.

    ``topics``: with partitions. ``largest_bytes``: the stored bytes of the largest topic, which its backlog does not
    exceed; None: not known.
    """
    is_whole = numbers is not None and not numbers["unknown"]
    oldest = numbers["oldest_at"] if numbers is not None and is_whole else None
    age_s = None if oldest is None else max(0, now_ms - oldest) / 1000 if oldest else 0.0
    size = largest_bytes if is_whole else None
    given = (
        ("backlog size", _limit(SIZE_QUOTA.says(Level.NAMESPACE, stored), "limitSize"), size),
        ("backlog age", _limit(AGE_QUOTA.says(Level.NAMESPACE, stored), "limitTime"), age_s),
        ("topics", _limit({"": TOPICS_LIMIT.says(Level.NAMESPACE, stored)}, ""), topics),
    )
    rows = [
        {
            "name": name,
            "limit": limit,
            "used": used,
            "share": None if used is None else used / limit,
            "at_most": name == "backlog size" and bool(used),
        }
        for name, limit, used in given
        if limit is not None
    ]
    return sorted(
        rows, key=lambda row: -1.0 if row["share"] is None else row["share"], reverse=True
    )


def _limit(value: Any, key: str) -> int | None:
    """Return the limit of a stored value; None where it sets none."""
    limit = None if value is None else value.get(key)
    return int(limit) if limit is not None and int(limit) > 0 else None
