"""Actions: what a caller may need the right to do, in the terms of Pulsar's authorization. Pure.

Pulsar's many operations come down to these: each is allowed to a superuser, to an administrator of the tenant, or to a
role with a grant on the namespace or the topic. The kind of resource distinguishes a look-up of one topic from a list
of the topics of a namespace, which a grant on a topic does not allow.
"""

from enum import Enum

from engine.auth.resource_names import Kind, SubscriptionName, TenantName, WholeCluster
from engine.base.names import NamespaceName, TopicName


class Action(Enum):
    """Action of a call on a resource."""

    PUBLIC = "public"
    """Open to everybody, also without credentials: the handshake, a page for load balancers."""
    OPENED = "opened"
    """Acts on what the same connection opened (a producer, a consumer, a watcher), which was authorised then."""
    AUTHENTICATED = "authenticated"
    """Open to every authenticated role: names no tenant's resource."""
    LOOKUP = "lookup"
    """Find or describe a topic, or list the topics of a namespace: a role that may produce or consume there."""
    PRODUCE = "produce"
    """Publish to a topic, or add the schema of what is published."""
    CONSUME = "consume"
    """Read a topic's messages, create, move or delete a subscription; of a namespace, those of all its topics."""
    PACKAGES = "packages"
    """Read or change the packages of a namespace."""
    FUNCTIONS = "functions"
    """Read or change the functions of a namespace."""
    SOURCES = "sources"
    """Read or change the sources of a namespace."""
    SINKS = "sinks"
    """Read or change the sinks of a namespace."""
    TENANT_ADMIN = "tenant admin"
    """Manage a tenant, its namespaces, topics, policies and grants."""
    SUPERUSER = "superuser"
    """Manage the cluster, or see what belongs to all tenants."""


KINDS: dict[Action, tuple[Kind, ...]] = {
    Action.PUBLIC: (),
    Action.OPENED: (),
    Action.AUTHENTICATED: (),
    Action.LOOKUP: (TopicName, NamespaceName),
    Action.PRODUCE: (TopicName,),
    Action.CONSUME: (TopicName, SubscriptionName, NamespaceName),
    Action.PACKAGES: (NamespaceName,),
    Action.FUNCTIONS: (NamespaceName,),
    Action.SOURCES: (NamespaceName,),
    Action.SINKS: (NamespaceName,),
    Action.TENANT_ADMIN: (TenantName, NamespaceName, TopicName),
    Action.SUPERUSER: (WholeCluster,),
}
"""The kinds of resource that an action may be about."""
UNJUDGED = frozenset({Action.PUBLIC, Action.OPENED})
"""Actions that no judge is asked about."""
WITHOUT_RESOURCE = UNJUDGED | {Action.AUTHENTICATED, Action.SUPERUSER}
"""Actions that concern no part of the cluster: a declaration need not name a resource."""
