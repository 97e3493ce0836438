"""Operations that list the topics of a broker with their figures. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.admin.api.arguments import LONG_MAX, JsonObject, within
from engine.auth.actions import Action
from engine.auth.resource_names import CLUSTER, WholeCluster
from engine.auth.rights import SUPERUSER, Right
from engine.base.names import NamespaceName, TopicName
from engine.rpc.operation import Operation

TOPICS_AT_REST_MAX = 100


@dataclass(frozen=True, slots=True)
class LoadedTopics:
    """Selection of the topics that are loaded on a broker: all, or those of one namespace."""

    namespace: NamespaceName | None = None


LIST_NAMESPACE: Right[LoadedTopics] = Right(
    Action.LOOKUP,
    NamespaceName,
    lambda args: (args.namespace,) if args.namespace is not None else (),
)
LIST_ALL: Right[LoadedTopics] = Right(
    Action.SUPERUSER, WholeCluster, lambda args: (CLUSTER,) if args.namespace is None else ()
)


@dataclass(frozen=True, slots=True)
class RowsSince:
    """Position in a feed of rows, which selects the changes since an earlier answer: ``after`` returns it.

    All rows are sent without an earlier answer, and when the broker has been restarted since.

    The answer of a feed's operation is ``{"at": ms, "incarnation": text, "revision": number, "begun": number, "whole":
    bool, "more": bool, "rows": [[name, …]], "gone": [name]}``. ``at`` is the time of the measurement; ``gone`` are
    names that have no row any more. ``whole``: a complete list begins here, and names that it does not have up to its
    end have no row either. With ``more`` the next request is answered at once, otherwise after the broker has measured
    again, which it does once a second.
    """

    incarnation: str = ""
    revision: int = 0
    begun: int = 0

    def __post_init__(self) -> None:
        within("revision", self.revision, 0, LONG_MAX)
        within("begun", self.begun, 0, LONG_MAX)

    @classmethod
    def after(cls, answer: JsonObject) -> "RowsSince":
        """Return the arguments of the call that follows an answer. Raises KeyError, TypeError, ValueError."""
        return cls(str(answer["incarnation"]), int(answer["revision"]), int(answer["begun"]))


@dataclass(frozen=True, slots=True)
class TopicsAtRest:
    """Persistent topics that are not partitioned topics, at most ``TOPICS_AT_REST_MAX``."""

    topics: list[TopicName]

    def __post_init__(self) -> None:
        if len(self.topics) > TOPICS_AT_REST_MAX:
            raise ValueError(
                f"topics: at most {TOPICS_AT_REST_MAX} at a time, not {len(self.topics)}"
            )
        for name in self.topics:
            if not name.persistent:
                raise ValueError(f"topics: {name} keeps nothing to be at rest")


ROW_COLUMNS = (
    "producers", "consumers", "subscriptions", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out",
    "backlog", "storage_bytes", "backlog_messages", "backlog_estimated", "backlog_unmeasured", "oldest_at",
)  # fmt: skip
"""Numbers of a topic's row, in their order. ``backlog``: entries, summed over subscriptions, as what follows.
``backlog_messages``: messages in them. ``backlog_estimated``: of the entries those whose messages are a mean;
``backlog_unmeasured``: those of unknown size, which are in ``backlog_messages`` as one message each. ``oldest_at``:
when the first unacknowledged entry was published, ms; 0: nothing is unacknowledged, ``OLDEST_UNKNOWN``: not known."""
OLDEST_UNKNOWN = -1
AGE_TARGET = "magnetar.backlog-age-target-seconds"
"""Property of a subscription: the age in seconds that its oldest unacknowledged message is not to exceed."""
AGE_TARGET_MAX_S = 10 * 366 * 86_400


def age_target_s(properties: Mapping[str, str]) -> int:
    """Return the target for the age of a backlog in seconds; 0 where there is none, or none that can be read."""
    text = properties.get(AGE_TARGET, "")
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(AGE_TARGET_MAX_S)):
        return 0
    return min(int(text), AGE_TARGET_MAX_S)


class SubscriptionCell(NamedTuple):
    """A subscription in a row of ``SUBSCRIPTION_ROWS``; its acknowledgements are unknown where ``backlog`` is None.

    ``rate_out``: messages in thousandths per second; ``lag``: the fields of ``lag.Lag``, or None; the figures of the
    backlog as in ROW_COLUMNS; ``unacked``: messages out unacknowledged; ``kind``: the type, empty before the
    first consumer; ``target_s``: see ``age_target_s``.
    """

    name: str
    backlog: int | None
    rate_out: int
    lag: Any = None
    oldest_at: int = 0
    messages: int | None = 0
    estimated: int | None = 0
    unmeasured: int | None = 0
    consumers: int = 0
    unacked: int = 0
    kind: str = ""
    target_s: int = 0


TOPIC_ROWS = Operation("topic_rows", RowsSince, JsonObject, SUPERUSER, reads=True)
"""Rows of the loaded topics, see RowsSince: ``[name, *ROW_COLUMNS]``. Rates are whole thousandths per second; null is
unknown."""
SUBSCRIPTION_ROWS = Operation("subscription_rows", RowsSince, JsonObject, SUPERUSER, reads=True)
"""Subscriptions of the loaded topics, see RowsSince. A row is ``[topic, subscription, …]`` with the fields of a
SubscriptionCell for each subscription; a topic without any has one, too."""
LINK_ROWS = Operation("link_rows", RowsSince, JsonObject, SUPERUSER, reads=True)
"""Replication of the loaded topics, see RowsSince. A row is ``[topic, [cluster, sent, received], …]`` with the other
clusters that the topic is sent to or received from; a topic without any has no row. ``sent`` is null or ``[backlog in
entries, oldest, messages per second, bytes per second, cause, why, since]`` with rates in thousandths, ``oldest``: when
the first entry that is not known to be stored there was published, ms (0: there is none, null: not known), ``cause``:
null while entries are sent, else a ``LinkCause``, which ``why`` explains, since ``since`` (ms). ``received`` is null
without a producer of the cluster, else ``[messages per second, bytes per second]`` in thousandths."""
TOPICS_AT_REST = Operation("topics_at_rest", TopicsAtRest, JsonObject, SUPERUSER, reads=True)
"""Stored figures of topics that no broker has loaded: ``{"at": ms, "rows": [[name, subscriptions, backlog,
storage_bytes, {subscription: backlog}]], "missing": [name]}``; null is unknown now. The topics are not loaded for it;
any broker answers, by the present figures of those that it has loaded itself."""
TOPICS = Operation("topics", LoadedTopics, list[str], (LIST_NAMESPACE, LIST_ALL), reads=True)
"""Names of the loaded topics, sorted."""
