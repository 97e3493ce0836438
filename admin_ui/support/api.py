"""REST of the support bundle."""

import asyncio

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ConsoleView, checked
from admin_ui.support import services, shapes
from engine.auth.rights import SUPERUSER

ZIP = "application/zip"


class SupportBundleView(ConsoleView):
    """A file with logs, settings, numbers and names of all tenants, so that only a superuser collects it. It changes
    nothing; as a POST it is recorded, and no page of another site can request it."""

    read_rights = write_rights = SUPERUSER
    for_viewer = False
    calls = {
        "post": Call(
            "collectSupportBundle",
            body=shapes.SupportBundleRequest,
            errors=(400, 409),
            file=ZIP,
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Collect a support bundle, as `magnetar support` does, and answer it. It takes seconds, up to minutes."""
        body = checked(shapes.SupportBundleRequest, request)
        data = await asyncio.to_thread(services.collect, hash_names=body["hash_names"])
        answer = HttpResponse(data, content_type=ZIP)
        answer["Content-Disposition"] = 'attachment; filename="magnetar-support.zip"'
        answer["Cache-Control"] = "no-store"
        return answer
