"""Causes why a topic is not sent to another cluster, as brokers diagnose and report them. Pure."""

from enum import StrEnum


class LinkCause(StrEnum):
    """Cause why a topic's messages do not reach another cluster."""

    UNREACHABLE = "unreachable"
    """No connection to its brokers is established, or it ended."""
    REFUSED = "refused"
    """The broker there refuses the producer."""
    QUOTA = "quota"
    """The topic's backlog quota is exceeded there."""
    SCHEMA = "schema"
    """The schema of the messages is not compatible there."""
    RIGHTS = "rights"
    """The credentials are not accepted there, or give too few rights."""
    TOPIC_MISSING = "topic-missing"
    """The topic, its namespace or its tenant does not exist there and is not created."""
    PARTITIONS = "partitions"
    """The topic has another number of partitions there."""
    RECORD = "record"
    """The cluster's record here is missing, or has no address or settings that can be used."""
    TRANSACTION = "transaction"
    """The next message is of a transaction, and transactions are not enabled here: whether it is valid is unknown."""
    VERSION = "version"
    """The brokers there are of a version that cannot receive."""
    UNCONFIRMED = "unconfirmed"
    """Messages are sent, and their receipts do not arrive."""
    STORAGE = "storage"
    """The messages, the position or the cluster's record cannot be read here."""
    RATE_LIMIT = "rate-limit"
    """The replication's dispatch rate is reached. Messages are sent, but no faster."""
    CONNECTING = "connecting"
    """The first attempt to connect is under way."""
    FAILED = "failed"
    """An unexpected error."""


SENDING = frozenset((LinkCause.RATE_LIMIT,))
"""Causes with which messages are sent."""
