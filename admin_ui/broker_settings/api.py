"""REST of the settings of brokers."""

from functools import partial

from django.http import HttpRequest, HttpResponse

from admin_ui.broker_settings import selectors, services, shapes
from admin_ui.calls import Call, ClusterView, Parameter, PreviewedView, actor_of, checked
from engine.auth.rights import SUPERUSER
from gateway.http.bodies import json_answer

SETTING = Parameter("setting", "its name in Pulsar", place="path")


class SettingsView(ClusterView):
    """All settings that may change while brokers run."""

    read_rights = SUPERUSER
    calls = {"get": Call("listSettings", shapes.SettingsAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(partial(selectors.listed, self.viewer)))


class SettingView(PreviewedView):
    """Change a setting for all brokers, or with null remove the common value, so that each broker uses its own. A
    request is first a ``preview``, then made exactly so by its ``token``."""

    write_rights = SUPERUSER
    calls = {
        "post": Call(
            "changeSetting",
            (shapes.SettingPreview, shapes.SettingReceipt),
            (SETTING,),
            body=shapes.SettingBody,
            errors=(400, 403, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, setting: str) -> HttpResponse:
        body, user = checked(shapes.SettingBody, request), actor_of(request)
        return await self.previewed(
            body,
            lambda engine: services.preview(engine, setting, user, body["value"]),
            lambda engine, token: services.apply(engine, setting, user, token),
        )
