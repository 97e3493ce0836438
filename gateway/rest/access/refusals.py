"""Refusals of Pulsar's REST calls, with the status and text of Apache's broker, which tools read.

``checks.csv`` has the check that Apache's broker makes first for each call, and its words for it.
"""

import csv
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from django.http import HttpRequest

from engine.auth.authorization.evaluator import namespace_of, tenant_of
from engine.auth.authorization.refusal_texts import (
    AccessCheck,
    HttpRefusal,
    default_http_refusal,
    http_refusal,
)
from engine.auth.resource_names import Resource, SubscriptionName
from engine.base.names import TopicName
from gateway.http.auth.access import AccessRefusedError
from gateway.rest.routes import NON_PERSISTENT, PERSISTENT, legacy, shape

TABLE = Path(__file__).with_name("checks.csv")


class Words(NamedTuple):
    """Check of Apache's broker with its names of the operation and the policy."""

    check: AccessCheck
    operation: str
    policy: str


@cache
def checks() -> dict[tuple[str, str], Words]:
    """Return the check of each call by method and shape of its path; older forms of paths have that of the newer."""
    by_call: dict[tuple[str, str], Words] = {}
    with TABLE.open(newline="") as file:
        for row in csv.DictReader(file):
            words = Words(AccessCheck[row["check"]], row["operation"], row["policy"])
            templates = [row["path"]]
            if row["path"].startswith(PERSISTENT):
                templates.append(NON_PERSISTENT + row["path"].removeprefix(PERSISTENT))
            for template in templates:
                for form in (template, legacy(template)):
                    if form is not None:
                        by_call.setdefault((row["method"], shape(form)), words)
    return by_call


def refusal_of(
    error: AccessRefusedError, request: HttpRequest, template: str, path: dict[str, Any]
) -> HttpRefusal:
    """Return the answer to a refused call. ``template`` is the route's, ``path`` has its variables."""
    method = "GET" if request.method == "HEAD" else request.method or ""
    words = checks().get((method, shape(template)))
    named = "" if words is None else _named(words.check, error.resource, request, path)
    if words is None or named is None:
        return default_http_refusal(error.identity, error.action, error.resource)
    return http_refusal(
        words.check,
        error.identity,
        named,
        operation=words.operation,
        policy=words.policy,
    )


def _named(
    check: AccessCheck, resource: Resource, request: HttpRequest, path: dict[str, Any]
) -> Resource | str | None:
    """Return what the text of a check names; None where the call is about something else."""
    match check:
        case AccessCheck.TOPIC_OPERATION | AccessCheck.TOPIC_POLICY:
            topic = resource.topic if isinstance(resource, SubscriptionName) else resource
            return topic if isinstance(topic, TopicName) else None
        case AccessCheck.NAMESPACE_OPERATION | AccessCheck.NAMESPACE_POLICY:
            if (namespace := namespace_of(resource)) is not None:
                return namespace
            # A superuser's operation on the namespace of the path.
            return f"{path['tenant']}/{path['namespace']}" if "namespace" in path else None
        case AccessCheck.TENANT_OPERATION:
            return tenant_of(resource) or path.get("tenant")
        case AccessCheck.CLUSTER_OPERATION:
            return str(path.get("cluster", ""))
        case AccessCheck.BROKER_OPERATION:
            return str(path.get("brokerId") or request.META["HTTP_HOST"])
        case _:
            return ""
