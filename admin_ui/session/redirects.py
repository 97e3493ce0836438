"""Sign-in by a provider: the way there, ``/sign-in/<provider>``, and back, ``/sign-in/<provider>/callback``.

A signed cookie of the browser has what the provider's answer must fit, so that strangers store nothing here (A29). It
is SameSite=Lax: the browser comes back from another site, and would not send a strict one.
"""

import logging
from html import escape
from typing import Any

from django.conf import settings
from django.core import signing
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme

from admin_ui.calls import http_url, in_thread
from admin_ui.session.api import record_session, with_cookies
from engine.base.errors import MagnetarError
from gateway.clusters.registry import clusters_for
from gateway.http.auth.access import public
from gateway.people import provider_people
from gateway.people.provider_client import (
    Authorization,
    ProviderAwayError,
    ProviderClient,
    ProviderRefusedError,
    Providers,
)

log = logging.getLogger(__name__)

COOKIE = "sign-in"
COOKIE_PATH = "/sign-in/"
SALT = "gateway.sign-in"
TIME_S = 600
"""Time within which the person must come back from the provider."""
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sign-in failed</title>
<meta name="viewport" content="width=device-width">
<style>:root {{ color-scheme: light dark; background: Canvas; font: 16px/1.5 system-ui }}</style></head>
<body><main><h1>Sign-in failed</h1><p>{reason}</p><p><a href="/sign-in">Back to the sign-in page</a></p></main></body>
</html>
"""
AWAY = "{title} does not answer. Try again later, or sign in another way."
REFUSED = "{title} has not confirmed who you are. Try again."


@public
async def begin(request: HttpRequest, provider: str) -> HttpResponse:
    """Send the browser to a provider's page."""
    client = _client(request, provider)
    if client is None:
        return _failed(404, "There is no such provider")
    providers = clusters_for(request).part(Providers)
    uri = _callback(request, provider)
    try:
        authorization = await providers.ask(lambda: client.authorization(uri))
    except (ProviderAwayError, ProviderRefusedError) as error:
        return _provider_failed(client, error)
    answer = HttpResponseRedirect(authorization.url)
    kept = {"provider": provider, "next": safe_path(request.GET.get("next", ""))}
    value = signing.dumps({**kept, **authorization._asdict(), "url": ""}, salt=SALT)
    answer.set_cookie(
        COOKIE,
        value,
        max_age=TIME_S,
        path=COOKIE_PATH,
        httponly=True,
        secure=request.is_secure(),
        samesite="Lax",
    )
    return answer


@public
async def callback(request: HttpRequest, provider: str) -> HttpResponse:
    """Begin the session of the person whom a provider has confirmed, and send the browser to where it wanted to go."""
    answer = await _came_back(request, provider)
    answer.delete_cookie(COOKIE, path=COOKIE_PATH, samesite="Lax")
    return answer


async def _came_back(request: HttpRequest, provider: str) -> HttpResponse:
    client = _client(request, provider)
    if client is None:
        return _failed(404, "There is no such provider")
    begun = _begun(request, provider)
    if begun is None:
        return _failed(
            400, "This sign-in was not begun in this browser, or too long ago. Try again."
        )
    code = request.GET.get("code", "")
    if not code:
        log.warning("sign-in refused by provider=%s error=%r", provider, request.GET.get("error"))
        return _failed(403, REFUSED.format(title=client.settings.title))
    uri = _callback(request, provider)
    try:
        authorization = Authorization("", begun["state"], begun["nonce"], begun["code_verifier"])
        providers = clusters_for(request).part(Providers)
        proven = await providers.ask(lambda: client.proven(code, uri, authorization))
        user = await in_thread(provider_people.sign_in)(request, client.settings, proven)
    except (ProviderAwayError, ProviderRefusedError) as error:
        return _provider_failed(client, error)
    except MagnetarError as error:
        log.warning("sign-in refused provider=%s reason=%s", provider, error)
        return _failed(403, str(error))
    except DatabaseError as error:
        log.warning("sign-in failed provider=%s error=%r", provider, error)
        return _failed(503, "The console's database does not answer; try again")
    record_session(request, user)
    return with_cookies(request, HttpResponseRedirect(begun["next"]))


def _client(request: HttpRequest, provider: str) -> ProviderClient | None:
    if not settings.IDENTITY.general.authentication_enabled:
        return None
    return clusters_for(request).part(Providers).get(provider)


def _begun(request: HttpRequest, provider: str) -> dict[str, Any] | None:
    """Return what the browser kept of the sign-in that comes back; None for another one."""
    try:
        kept: dict[str, Any] = signing.loads(
            request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=TIME_S
        )
    except signing.BadSignature:
        return None
    fits = kept["provider"] == provider and kept["state"] == request.GET.get("state")
    return kept if fits else None


def _callback(request: HttpRequest, provider: str) -> str:
    return f"{http_url(request)}/sign-in/{provider}/callback"


def safe_path(path: str) -> str:
    """Return a path of the console to which a browser may be sent, else the first page."""
    is_ours = path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None)
    return path if is_ours and not path.startswith(("/sign-in", "/api/")) else "/"


def _provider_failed(client: ProviderClient, error: MagnetarError) -> HttpResponse:
    log.warning("sign-in failed provider=%s reason=%s", client.settings.name, error)
    title = client.settings.title
    if isinstance(error, ProviderAwayError):
        return _failed(503, AWAY.format(title=title))
    return _failed(403, REFUSED.format(title=title))


def _failed(status: int, reason: str) -> HttpResponse:
    return HttpResponse(PAGE.format(reason=escape(reason)), status=status)
