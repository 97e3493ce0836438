"""The page, one HTML file for every route of the console, whose own router does the rest; and the OpenAPI document."""

import asyncio

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from gateway.http.auth.access import public

NOT_BUILT = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Magnetar</title></head>
<body><h1>The console is not built yet</h1>
<p>The gateway runs, and its REST interfaces answer. Build the console with <code>make run</code>, or
<code>npm --prefix frontend ci &amp;&amp; npm --prefix frontend run build</code>, then reload this page.</p>
</body></html>
"""


@public
async def page(request: HttpRequest) -> HttpResponse:
    """Answer ``frontend/dist/index.html``. It is never cached, because it names the hashed files of the present build.
    Without a build, answer 503 with a page that describes how to make one."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    index = settings.FRONT_END_DIR / "index.html"
    try:
        text, status = index.read_text(), 200
    except FileNotFoundError:
        text, status = NOT_BUILT, 503
    answer = HttpResponse(text, status=status)
    answer.headers["Cache-Control"] = "no-cache"
    return answer


@public
async def schema(request: HttpRequest) -> HttpResponse:
    """Answer the OpenAPI document. The generator is loaded on demand, since it would slow down every start of the
    gateway."""
    from admin_ui.openapi import document_text

    return HttpResponse(
        await asyncio.to_thread(document_text), content_type="application/vnd.oai.openapi+json"
    )
