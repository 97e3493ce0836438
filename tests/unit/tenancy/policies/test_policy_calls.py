"""Routes and tools' commands of the policies in the table."""

from engine.tenancy.policies.policy import Level
from engine.tenancy.policies.policy_calls import PolicyTool
from engine.tenancy.policies.table import POLICIES


def test_a_policy_has_at_most_one_command_of_a_tool_at_a_level_where_it_exists() -> None:
    for policy in POLICIES:
        for level in (Level.NAMESPACE, Level.TOPIC):
            tools = [command.tool for command in policy.commands_at(level)]
            assert len(tools) == len(set(tools)), policy.name
            assert policy.route_at(level) is not None or not tools, policy.name


def test_every_shown_policy_is_set_by_pulsar_admin() -> None:
    for policy in POLICIES:
        for level in (Level.NAMESPACE, Level.TOPIC):
            if policy.shown and policy.route_at(level) is not None:
                tools = [command.tool for command in policy.commands_at(level)]
                assert PolicyTool.PULSAR_ADMIN in tools, (policy.name, level)


def test_commands_have_fields_that_the_value_has() -> None:
    for policy in POLICIES:
        schema = policy.form.schema()
        fields = {field["name"] for field in schema.get("fields", [])} or {""}
        for command in policy.commands:
            assert {option.field for option in command.options} <= fields, policy.name
