"""The built console's files (``frontend/dist``), served with whitenoise's caching and compression rules."""

from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from whitenoise.base import WhiteNoise

PREFIX = "/static/"
"""The path of the front end's files, apart from the console's routes; the front end is built with it."""
HASHED_DIR = f"{PREFIX}assets/"
"""The path of files that Vite names after their content, so browsers may cache them for ever."""


@lru_cache(maxsize=2)
def _site(directory: str, written: int) -> WhiteNoise:
    """Return the files of a folder. ``written`` is the time of its page: a console that is installed while the gateway
    runs is served at once."""
    site = WhiteNoise(
        application=None,
        max_age=0,
        allow_all_origins=False,
        immutable_file_test=lambda path, url: url.startswith(HASHED_DIR),
    )
    site.add_files(directory, prefix=PREFIX)
    return site


def file_of(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a GET or HEAD of one of the files; None for any other request."""
    if not request.path_info.startswith(PREFIX) or request.method not in ("GET", "HEAD"):
        return None
    directory: Path = settings.FRONT_END_DIR
    try:
        written = (directory / "index.html").stat().st_mtime_ns
    except OSError:
        return None
    static_file = _site(str(directory), written).files.get(request.path_info)
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
