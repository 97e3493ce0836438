"""Names of topics and subscriptions from the segments of a path."""

from engine.base.errors import InvalidNameError, PreconditionFailed
from engine.base.names import TopicName, check_subscription
from engine.tenancy.namespaces import namespace_name


def topic_name(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    """Return the topic that path segments name. Raises PreconditionFailed."""
    parent = namespace_name(tenant, namespace)
    try:
        return parent.topic(topic, domain)
    except InvalidNameError as error:
        raise PreconditionFailed(f"Topic name is not valid: {error}") from error


def subscription_name(name: str) -> str:
    """Return ``name`` if it is a valid subscription name. Raises PreconditionFailed."""
    try:
        return check_subscription(name)
    except InvalidNameError as error:
        raise PreconditionFailed(str(error)) from error
