"""Calls that set and remove a policy: its route in Pulsar's REST interface, and commands of Pulsar's tools. Pure.

The words of ``pulsar-admin`` are those of Apache Pulsar 4.0.8, those of ``pulsarctl`` of its version 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class PolicyTool(StrEnum):
    """A command line tool for Pulsar."""

    PULSAR_ADMIN = "pulsar-admin"
    PULSARCTL = "pulsarctl"


@dataclass(frozen=True, slots=True)
class Removal:
    """The call that removes a policy. ``body`` is the JSON value that it sends, unless the method is DELETE."""

    method: str = "DELETE"
    body: Any = None


DELETE = Removal()


@dataclass(frozen=True, slots=True)
class PolicyRoute:
    """A policy's route at one level, below the path of the namespace or topic.

    * ``path`` is its segment, ``query`` the query that selects the policy when several share the segment.
    * ``method`` sets the policy; ``removal`` removes it, None where Pulsar has no call for that.
    * ``value_query`` is the query parameter in which clients send the value; empty when they send it as the body.
    * ``unset_status`` is the status of the answer without a value; ``stored_status`` that of a change.
    * ``applied``: the query parameter ``applied`` requests the effective value; otherwise Pulsar ignores it.
    * ``by_superuser``: only a superuser changes the policy; otherwise an administrator of the tenant does, too.
    * ``everywhere``: ``isGlobal`` selects the value for all clusters; otherwise Pulsar ignores it.
    """

    path: str
    query: str = ""
    method: str = "POST"
    removal: Removal | None = DELETE
    value_query: str = ""
    unset_status: int = 200
    stored_status: int = 204
    applied: bool = True
    everywhere: bool = True
    by_superuser: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """Option that expresses one field of a policy's value in a command. A field that the value lacks is left out.

    * ``flag`` precedes the field's value; the names of a list are joined by commas.
    * ``field`` is the name of the field; empty for a value without fields.
    * ``suffix`` is the unit that follows a number of 0 or more; negative numbers mean "no limit" and have no unit.
    * ``divisor`` divides a number; the command cannot express one that it does not divide.
    * ``cases`` has the words for each value in JSON's notation, instead of a flag; the command cannot express others.
    """

    flag: str = ""
    field: str = ""
    suffix: str = ""
    divisor: int = 1
    cases: Mapping[str, tuple[str, ...]] | None = None


def switch(field: str = "", on: str = "--enable", off: str = "--disable") -> Option:
    """Return the option of a boolean field; an empty word stands for no option at all."""
    return Option(field=field, cases={"true": (on,) if on else (), "false": (off,) if off else ()})


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """Commands of one tool at one level.

    ``set`` and ``remove`` are the first words after the tool's name; ``remove`` is empty when the tool has no command
    for it. The words of the ``options`` follow ``set``, and the name of the namespace or topic is the last word.
    """

    tool: PolicyTool
    of_topics: bool
    set: tuple[str, ...]
    options: tuple[Option, ...]
    remove: tuple[str, ...] = ()


def on_namespaces(tool: PolicyTool, set: str, *options: Option, remove: str = "") -> ToolCommand:
    """Return a tool's commands for namespaces; ``set`` and ``remove`` are words with spaces between."""
    return _command(tool, "namespaces", set, options, remove, of_topics=False)


def on_topics(tool: PolicyTool, set: str, *options: Option, remove: str = "") -> ToolCommand:
    """Return a tool's commands for topics; ``set`` and ``remove`` are words with spaces between."""
    return _command(tool, "topics", set, options, remove, of_topics=True)


def admin(noun: str, *options: Option, fixed: str = "") -> ToolCommand:
    """Return pulsar-admin's ``set-`` and ``remove-`` commands for namespaces; ``fixed`` words are in both."""
    set, remove = f"set-{noun} {fixed}", f"remove-{noun} {fixed}"
    return on_namespaces(PolicyTool.PULSAR_ADMIN, set, *options, remove=remove)


def topic_admin(noun: str, *options: Option, fixed: str = "") -> ToolCommand:
    """Return pulsar-admin's commands for topics; see ``admin``."""
    set, remove = f"set-{noun} {fixed}", f"remove-{noun} {fixed}"
    return _command(PolicyTool.PULSAR_ADMIN, "topicPolicies", set, options, remove, of_topics=True)


def both_admin(noun: str, *options: Option, fixed: str = "") -> tuple[ToolCommand, ToolCommand]:
    """Return pulsar-admin's commands for namespaces and topics where the words are the same."""
    return admin(noun, *options, fixed=fixed), topic_admin(noun, *options, fixed=fixed)


def ctl(noun: str, *options: Option, fixed: str = "", remove: str = "") -> ToolCommand:
    """Return pulsarctl's ``set-`` command for namespaces; it removes few of their policies."""
    return on_namespaces(PolicyTool.PULSARCTL, f"set-{noun} {fixed}", *options, remove=remove)


def topic_ctl(noun: str, *options: Option, fixed: str = "", remove: str = "") -> ToolCommand:
    """Return pulsarctl's ``set-`` and ``remove-`` commands for topics."""
    set, remove = f"set-{noun} {fixed}", remove or f"remove-{noun}"
    return on_topics(PolicyTool.PULSARCTL, set, *options, remove=remove)


def _command(
    tool: PolicyTool,
    group: str,
    set: str,
    options: tuple[Option, ...],
    remove: str,
    *,
    of_topics: bool,
) -> ToolCommand:
    removal = (group, *remove.split()) if remove else ()
    return ToolCommand(tool, of_topics, (group, *set.split()), options, removal)
