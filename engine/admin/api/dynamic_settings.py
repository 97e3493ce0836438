"""Operations on the settings that may change while brokers run. Pure."""

from dataclasses import dataclass
from typing import Any

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.auth.rights import SUPERUSER
from engine.rpc.operation import Operation


@dataclass(frozen=True, slots=True)
class ChangeSetting:
    """Change of a setting by Pulsar's ``name``; without ``value`` the stored one is removed.

    With ``checked``, the change is made only while ``expected`` is stored.
    """

    name: str
    value: str | None = None
    checked: bool = False
    expected: Any = None


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """Selection of the settings that may change: all, or the one called ``name``.

    The latter is described as if ``value`` were stored, or as if none were stored without ``value``.
    """

    name: str = ""
    value: str | None = None


DYNAMIC_SETTINGS = Operation("dynamic_settings", NoArguments, JsonObject, SUPERUSER, reads=True)
"""``{"names": of settings that may change while brokers run, "values": the stored ones, as texts}``, with Pulsar's
names. Any broker answers."""
CHANGE_SETTING = Operation("change_setting", ChangeSetting, JsonObject, SUPERUSER)
"""Durable change of a setting for all brokers, which is effective on this broker before the answer. Raises
PreconditionFailed for a setting that must not change while brokers run, and for an invalid value, Conflict when another
value than expected is stored."""
LIVE_SETTINGS = Operation("live_settings", LiveSettings, list[JsonObject], SUPERUSER, reads=True)
"""Settings of this broker: ``{"name", "meaning", "allowed": allowed values, "choices": [texts], "default", "started":
value at its start, "in_force", "last_read": stored value that it last read, null for none, "refused": why it does not
use that, "would_be": value that would be effective, "refusal": why the given one would not}``. Values are texts."""
RUNTIME_SETTINGS = Operation("runtime_settings", NoArguments, dict[str, str], SUPERUSER, reads=True)
"""Effective settings of the broker, by Pulsar's names, as texts."""
