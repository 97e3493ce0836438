"""Policies of schemas: compatibility, and what clients may do. Pure."""

from collections.abc import Mapping
from typing import Any

from engine.tenancy.policies.forms import Choice, Flag
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.policy_calls import (
    Option,
    PolicyRoute,
    PolicyTool,
    Removal,
    ToolCommand,
    ctl,
    on_namespaces,
    switch,
    topic_admin,
)
from engine.tenancy.strategy import BY_OLD_NAME, OLD_NAMES, Strategy

_OLD_STRATEGY = "schema_auto_update_compatibility_strategy"
_OLD_STRATEGY_OPTION = Option(
    cases={
        "AutoUpdateDisabled": ("--disabled",),
        **{name: ("--compatibility", name) for name in ("Full", "Backward", "Forward")},
    }
)
"""Option with the strategies that pulsar-admin accepts."""


def _by_old_name(namespace: Mapping[str, Any]) -> str | None:
    name = namespace.get(_OLD_STRATEGY)
    strategy = BY_OLD_NAME.get(name) if isinstance(name, str) else None
    return None if strategy is None else strategy.value


SCHEMAS: tuple[Policy, ...] = (
    Policy(
        "schemaCompatibilityStrategy",
        "Schema compatibility",
        "Which schemas may follow a topic's schema; the transitive strategies compare with all versions",
        ("schema_compatibility_strategy",),
        Choice(tuple(strategy.value for strategy in Strategy)),
        lambda settings: settings.schema_compatibility_strategy,
        ("schema_compatibility_strategy",),
        topic_key=("schemaCompatibilityStrategy",),
        unset=Strategy.UNDEFINED.value,
        nothing=(Strategy.UNDEFINED.value,),
        topic_nothing=(Strategy.UNDEFINED.value,),
        older=_by_old_name,
        route=PolicyRoute("schemaCompatibilityStrategy", method="PUT", removal=Removal("PUT")),
        topic_route=PolicyRoute("schemaCompatibilityStrategy", method="PUT", everywhere=False),
        commands=(
            on_namespaces(
                PolicyTool.PULSAR_ADMIN,
                "set-schema-compatibility-strategy",
                Option("--compatibility"),
                remove="set-schema-compatibility-strategy --compatibility UNDEFINED",
            ),
            topic_admin("schema-compatibility-strategy", Option("--strategy")),
        ),
    ),
    Policy(
        "schemaAutoUpdateCompatibilityStrategy",
        "Schema compatibility, old form",
        "The older policy, which applies where Schema compatibility is not set",
        (_OLD_STRATEGY,),
        Choice(tuple(BY_OLD_NAME)),
        lambda settings: OLD_NAMES[Strategy(settings.schema_compatibility_strategy)],
        ("schema_compatibility_strategy",),
        route=PolicyRoute(
            "schemaAutoUpdateCompatibilityStrategy", method="PUT", removal=None, unset_status=204
        ),
        commands=(
            on_namespaces(
                PolicyTool.PULSAR_ADMIN, "set-schema-autoupdate-strategy", _OLD_STRATEGY_OPTION
            ),
            ctl("schema-autoupdate-strategy", Option("--compatibility")),
        ),
    ),
    Policy(
        "isAllowAutoUpdateSchema",
        "Schema auto-update",
        "Whether clients may add versions to a topic's schema, or administrators alone",
        ("is_allow_auto_update_schema",),
        Flag(),
        lambda settings: settings.is_allow_auto_update_schema_enabled,
        ("is_allow_auto_update_schema_enabled",),
        unset=True,
        route=PolicyRoute("isAllowAutoUpdateSchema", removal=None),
        commands=(
            on_namespaces(PolicyTool.PULSAR_ADMIN, "set-is-allow-auto-update-schema", switch()),
            ctl("is-allow-auto-update-schema", switch()),
        ),
    ),
    Policy(
        "schemaValidationEnforced",
        "Schema required",
        "Whether producers must have a schema where the topic has one",
        ("schema_validation_enforced",),
        Flag(),
        lambda settings: settings.is_schema_validation_enforced,
        ("is_schema_validation_enforced",),
        topic_key=("schemaValidationEnforced",),
        unset=False,
        topic_unset=False,
        nothing=(False,),
        route=PolicyRoute("schemaValidationEnforced", removal=Removal("POST", False)),
        topic_route=PolicyRoute("schemaValidationEnforced", removal=None, everywhere=False),
        commands=(
            on_namespaces(
                PolicyTool.PULSAR_ADMIN,
                "set-schema-validation-enforce",
                switch(),
                remove="set-schema-validation-enforce --disable",
            ),
            # pulsar-admin has this command outside topicPolicies, and none that removes it.
            ToolCommand(
                PolicyTool.PULSAR_ADMIN,
                of_topics=True,
                set=("topics", "set-schema-validation-enforce"),
                options=(switch(off=""),),
            ),
            ctl(
                "schema-validation-enforced",
                switch(on="", off="--disable"),
                remove="set-schema-validation-enforced --disable",
            ),
        ),
    ),
)
