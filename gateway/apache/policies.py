"""The policies of namespaces of an Apache Pulsar cluster, with the defaults of its brokers."""

import re
import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from engine.admin.api.arguments import OnBundle
from engine.admin.api.policies import NAMESPACE_POLICIES
from engine.base.names import NamespaceName
from engine.tenancy.namespaces import get_policies
from engine.tenancy.policies.in_force import in_force, of_cluster
from engine.tenancy.policies.policy import find
from engine.tenancy.policies.table import POLICIES
from engine.tenancy.settings import PolicySettings
from gateway.apache.brokers import Handlers, Target

Json = dict[str, Any]
RUNTIME = "/admin/v2/brokers/configuration/runtime"
"""Path of the effective settings of a broker, which only a superuser may read."""


def policy_settings(runtime: Mapping[str, str]) -> PolicySettings:
    """Return the settings that policies read, from the effective settings of an Apache broker by their own names."""
    kinds = typing.get_type_hints(PolicySettings)
    given: dict[str, Any] = {}
    for item in fields(PolicySettings):
        text = runtime.get(re.sub(r"_([a-z])", lambda match: match[1].upper(), item.name))
        if text is None:
            continue
        kind = kinds[item.name]
        if kind is bool:
            given[item.name] = text == "true"
        elif kind is str:
            # Apache writes a list as [a, b].
            given[item.name] = text.strip("[]").replace(", ", ",")
        elif kind is int and re.fullmatch(r"-?\d+", text):
            given[item.name] = int(text)
    return PolicySettings(**given)


async def _namespace_policies(target: Target, args: OnBundle) -> Json:
    return await namespace_policies_of(target, args.namespace)


async def namespace_policies_of(target: Target, namespace: NamespaceName) -> Json:
    """Return the policies in force in a namespace, with their levels and the brokers' defaults."""
    settings = policy_settings(await target.rest.get(RUNTIME))
    record = await get_policies(target.store, namespace)
    stored = of_cluster(record, target.rest.cluster.own_name)
    defaults, effective = in_force(settings, {}, {}), in_force(settings, stored, {})
    return {
        policy.name: {
            "value": effective[policy.name].value,
            "level": effective[policy.name].level.value,
            "own": find(stored, policy.key),
            "default": defaults[policy.name].value,
        }
        for policy in POLICIES
        if policy.key
    }


NAMESPACE: Handlers = {NAMESPACE_POLICIES.name: _namespace_policies}
