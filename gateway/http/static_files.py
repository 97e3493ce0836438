"""The built files of the console (``frontend/dist``) and of the documentation (``docs/_build/html``), served with
whitenoise's caching and compression rules."""

from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from whitenoise.base import WhiteNoise

from gateway.http import container
from gateway.http.auth.access import public

PREFIX = "/static/"
"""The path of the front end's files, apart from the console's routes; the front end is built with it."""
HASHED_DIR = f"{PREFIX}assets/"
"""The path of files that Vite names after their content, so browsers may cache them for ever."""
DOCUMENTATION_PREFIX = "/docs/"
WRITTEN_LAST = "searchindex.js"
"""The file that each build of the documentation writes at its end."""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Magnetar documentation</title></head>
<body><h1>{title}</h1>
<p>{text}</p>
</body></html>
"""
NOT_BUILT = PAGE.format(
    title="The documentation is not built yet",
    text="In a checkout, build it with <code>make setup</code>, then reload this page. "
    "The same pages are Markdown files in the folder <code>docs</code>.",
)
NO_PAGE = PAGE.format(
    title="There is no such page",
    text='This version of the documentation starts at <a href="/docs/">its first page</a>.',
)


@lru_cache(maxsize=4)
def _site(directory: Path, prefix: str, written_ns: int) -> WhiteNoise:
    """Return the files of one build. ``written_ns`` is the time of a file that each build writes, since a later build,
    or the first one while the gateway runs, has other files of other sizes."""
    site = WhiteNoise(
        application=None,
        max_age=0,
        allow_all_origins=False,
        index_file=prefix == DOCUMENTATION_PREFIX,
        immutable_file_test=lambda path, url: url.startswith(HASHED_DIR),
    )
    site.add_files(directory, prefix=prefix)
    # Notes of the build, such as .buildinfo and .doctrees, have paths of the machine.
    site.files = {url: file for url, file in site.files.items() if "/." not in url}
    return site


def file_of(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a GET or HEAD of a file of the front end; None for any other request."""
    if not request.path_info.startswith(PREFIX) or request.method not in ("GET", "HEAD"):
        return None
    directory: Path = settings.FRONT_END_DIR
    try:
        written_ns = (directory / "index.html").stat().st_mtime_ns
    except OSError:
        return None
    return _answer(_site(directory, PREFIX, written_ns), request)


@public
async def documentation(request: HttpRequest) -> HttpResponse:
    """Answer a page or file of the present build of the documentation (A40). It has nothing of an instance in it.

    Without a build, answer 503 with a page that describes how to make one.
    """
    if request.method not in ("GET", "HEAD"):
        return container.empty(405)
    directory: Path = settings.DOCUMENTATION_DIR
    try:
        written_ns = (directory / WRITTEN_LAST).stat().st_mtime_ns
    except OSError:
        return HttpResponse(NOT_BUILT, status=503)
    answer = _answer(_site(directory, DOCUMENTATION_PREFIX, written_ns), request)
    return answer or HttpResponse(NO_PAGE, status=404)


def _answer(site: WhiteNoise, request: HttpRequest) -> HttpResponse | None:
    static_file = site.files.get(request.path_info)
    if static_file is None:
        return None
    response = static_file.get_response(request.method, request.META)
    # The files are small and in the page cache, so they are read on the loop and not by a thread.
    body = b""
    if response.file is not None:
        with response.file:
            body = response.file.read()
    answer = HttpResponse(body, status=int(response.status))
    del answer.headers["Content-Type"]
    for name, value in response.headers:
        answer.headers[name] = value
    return answer
