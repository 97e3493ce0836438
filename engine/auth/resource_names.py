"""Resources that a right is about: the cluster, or a name of what it holds. Pure."""

from dataclasses import dataclass

from engine.base.names import NamespaceName, TopicName, check_entity


@dataclass(frozen=True, slots=True)
class WholeCluster:
    """The cluster with everything in it: the resource of rights that concern no part of it alone."""

    def __str__(self) -> str:
        return "the cluster"


@dataclass(frozen=True, slots=True)
class TenantName:
    """Name of a tenant."""

    name: str

    @classmethod
    def parse(cls, text: str) -> "TenantName":
        """Return the tenant with this name. Raises InvalidNameError."""
        return cls(check_entity("tenant", text))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class SubscriptionName:
    """Name of a subscription of a topic."""

    topic: TopicName
    name: str

    def __str__(self) -> str:
        return f"subscription {self.name} of {self.topic}"


CLUSTER = WholeCluster()
Resource = WholeCluster | TenantName | NamespaceName | TopicName | SubscriptionName
Kind = (
    type[WholeCluster]
    | type[TenantName]
    | type[NamespaceName]
    | type[TopicName]
    | type[SubscriptionName]
)
