"""REST of the settings of brokers."""

from django.http import HttpRequest, HttpResponse

from admin_ui.broker_settings import selectors, services, shapes
from admin_ui.calls import Call, ClusterView, Parameter, PreviewedView, actor_of, checked
from gateway.http.bodies import json_answer

SETTING = Parameter("setting", "Pulsar's name of it", place="path")


class SettingsView(ClusterView):
    """All settings that may change while brokers run."""

    permission = "cluster"
    calls = {"get": Call("listSettings", shapes.SettingsAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(selectors.listed))


class SettingView(PreviewedView):
    """Set one for all brokers, or with null have each broker's own hold again: first ask what that would do
    (``preview``), then have exactly that done (``token``)."""

    permission = "cluster"
    write_permission = "cluster"
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
        asked, user = checked(shapes.SettingBody, request), actor_of(request)
        return await self.previewed(
            asked,
            lambda engine: services.preview(engine, setting, user, asked["value"]),
            lambda engine, token: services.apply(engine, setting, user, token),
        )
