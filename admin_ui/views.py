"""The page, one HTML file for every route of the console, whose own router does the rest; and the OpenAPI document."""

import asyncio

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from gateway.http.auth.access import public

NOT_BUILT = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Magnetar</title></head>
<body><h1>The console is not installed</h1>
<p>Everything else works: clients, <a href="/admin/v2/tenants">REST</a>, <a href="/metrics">metrics</a>.</p>
<p>To get the console, call <code>make setup</code> in the folder of the sources, which builds it with Node, then reload
this page. On a machine that cannot build it, take <code>magnetar-console.tar.gz</code> of the release, or write it with
<code>make console-archive</code> elsewhere, and call <code>MAGNETAR_CONSOLE=FILE make setup</code>.</p>
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
