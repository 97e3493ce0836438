"""The built console's files (``frontend/dist``), served with whitenoise's caching and compression rules."""

from functools import cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from whitenoise.base import WhiteNoise

PREFIX = "/static/"
"""The front end is built to find its files below it, which keeps them apart from the console's routes."""
HASHED_DIR = f"{PREFIX}assets/"
"""Vite names the files in it after their content, so browsers may keep them for ever."""


@cache
def _site(directory: str) -> WhiteNoise:
    site = WhiteNoise(
        application=None,
        max_age=0,
        allow_all_origins=False,
        immutable_file_test=lambda path, url: url.startswith(HASHED_DIR),
    )
    if Path(directory).is_dir():
        site.add_files(directory, prefix=PREFIX)
    return site


def file_of(request: HttpRequest) -> HttpResponse | None:
    """The answer to a GET of one of the files."""
    if not request.path_info.startswith(PREFIX) or request.method not in ("GET", "HEAD"):
        return None
    found = _site(str(settings.FRONT_END_DIR)).files.get(request.path_info)
    if found is None:
        return None
    response = found.get_response(request.method, request.META)
    # The console's files are small and in the page cache: one read, no thread.
    body = b""
    if response.file is not None:
        with response.file:
            body = response.file.read()
    answer = HttpResponse(body, status=int(response.status))
    del answer.headers["Content-Type"]
    for name, value in response.headers:
        answer.headers[name] = value
    return answer
