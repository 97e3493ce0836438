"""Policies of namespaces and topics: the values in force with their level, the preview of a change, and exactly that
change saved."""

from admin_ui.calls import TOPIC
from admin_ui.policies.api import NamespacePolicyView, TopicPoliciesView, TopicPolicyView
from admin_ui.resource import Resource

POLICIES = Resource(
    routes={
        "tenants/<seg:tenant>/namespaces/<seg:namespace>/policies/<seg:policy>": NamespacePolicyView,
        f"{TOPIC}/policies": TopicPoliciesView,
        f"{TOPIC}/policies/<seg:policy>": TopicPolicyView,
    }
)
"""REST of policies; those of a namespace are read with it."""
