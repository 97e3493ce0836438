"""Administrative operations on the settings that may change while brokers run."""

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.admin.api.dynamic_settings import (
    CHANGE_SETTING,
    DYNAMIC_SETTINGS,
    LIVE_SETTINGS,
    RUNTIME_SETTINGS,
    ChangeSetting,
    LiveSettings,
)
from engine.base.errors import Failed
from engine.broker.control.dynamic_settings import ANYTHING, DynamicSettings
from engine.rpc.operation import Handlers, bind


class SettingOperations:
    """Handlers of the operations, which ``engine.admin.api.dynamic_settings`` describes."""

    def __init__(self, dynamic: DynamicSettings) -> None:
        self._dynamic = dynamic

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(DYNAMIC_SETTINGS, self.dynamic_settings),
                bind(CHANGE_SETTING, self.change_setting),
                bind(LIVE_SETTINGS, self.live_settings),
                bind(RUNTIME_SETTINGS, self.runtime_settings),
            ]
        )

    async def dynamic_settings(self, args: NoArguments) -> JsonObject:
        return {"names": self._dynamic.names, "values": dict(await self._stored())}

    async def _stored(self) -> JsonObject:
        try:
            return dict(await self._dynamic.values())
        except ValueError as error:
            raise Failed(str(error)) from error

    async def change_setting(self, args: ChangeSetting) -> JsonObject:
        expected = args.expected if args.checked else ANYTHING
        return {"before": await self._dynamic.change(args.name, args.value, expected=expected)}

    async def live_settings(self, args: LiveSettings) -> list[JsonObject]:
        if not args.name:
            return self._dynamic.live()
        return self._dynamic.live_if(args.name, args.value)

    async def runtime_settings(self, args: NoArguments) -> dict[str, str]:
        return self._dynamic.runtime()
