"""The table that maps exceptions to HTTP answers.

Every error body is ``{"reason": …}``. A failure of the gateway adds the request id that is also in the log, never a
traceback.
"""

import asyncio
import concurrent.futures
import logging
import sys
import uuid

from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions

from engine.auth.credentials import AuthenticationFailed, RolesRefused
from engine.base.errors import (
    Conflict,
    Failed,
    Forbidden,
    InvalidField,
    InvalidNameError,
    InvalidRequest,
    MagnetarError,
    NotAcceptable,
    NotBuilt,
    NotFound,
    NotReady,
    PreconditionFailed,
    Unprocessable,
    Unsupported,
    UnusableField,
)
from engine.metadata.apart.routed import OtherStoreUnavailableError
from engine.metadata.incomplete import IncompleteStoreError
from engine.metadata.store import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.tenancy.geo.homes import HeldElsewhereError
from gateway.clusters.registry import path_of
from gateway.database.refusals import reason_of
from gateway.http import container
from gateway.http.auth.access import RefusedAsError
from gateway.http.exchange import EncodedBodyError, SlowBodyError
from gateway.http.forms.uploads import TooLargeUploadError
from gateway.services.health.hops import HopError, Kind

log = logging.getLogger(__name__)


# The first match wins. The reason None stands for the exception's own text.
TABLE: list[tuple[type[BaseException], int, str | None]] = [
    (UnusableField, 422, None),
    (InvalidRequest, 400, None),
    (Forbidden, 403, None),
    (NotFound, 404, None),
    (Unsupported, 405, None),
    (NotAcceptable, 406, None),
    (Conflict, 409, None),
    (HeldElsewhereError, 412, None),
    (PreconditionFailed, 412, None),
    (InvalidNameError, 412, None),
    (Unprocessable, 422, None),
    (Failed, 500, None),
    (NotBuilt, 501, None),
    (NotReady, 503, None),
    (NoNodeError, 404, "The object does not exist (any more)"),
    (NodeExistsError, 409, "The object exists already"),
    (BadVersionError, 409, "Concurrent modification; read again and retry"),
    (IncompleteStoreError, 503, None),
    (OtherStoreUnavailableError, 503, None),
    (StoreUnavailableError, 503, "The metadata store does not answer"),
    (SessionExpiredError, 503, "The metadata store's session was lost"),
    (concurrent.futures.TimeoutError, 503, "No answer in time from the owning broker"),
    (asyncio.TimeoutError, 503, "No answer in time from the owning broker"),
    (ConnectionError, 503, "The connection to the owning broker was lost"),
    (TooLargeUploadError, 413, None),
    (RequestDataTooBig, 413, "The request body is larger than 1 MiB"),
    (SlowBodyError, 408, None),
    (EncodedBodyError, 415, "Content-Encoding: the request body must not be compressed"),
    (DisallowedHost, 400, "Host header is not one this gateway answers to"),
    (DatabaseError, 503, None),  # gateway.database.refusals
    (AuthenticationFailed, 401, "Authentication required"),
    (RolesRefused, 401, None),
    (exceptions.PermissionDenied, 403, None),
    (exceptions.ParseError, 400, None),
]

UNKNOWN_OUTCOME = (
    StoreUnavailableError,
    SessionExpiredError,
    concurrent.futures.TimeoutError,
    asyncio.TimeoutError,
    ConnectionError,
)
"""Errors after which it is unknown whether a change was made: repeating the call may make it twice."""
TRY_AGAIN = "; try again"
LOOK_FIRST = "; the change may have been made: look before repeating it"

HOPS: list[tuple[type[BaseException], Kind]] = [
    (IncompleteStoreError, Kind.STORE),
    (StoreUnavailableError, Kind.STORE),
    (SessionExpiredError, Kind.STORE),
    (DatabaseError, Kind.DATABASE),
    (ConnectionError, Kind.BROKER),
    (NotReady, Kind.BROKER),
]


def handle(
    error: Exception, request: HttpRequest, *, quiet: bool = False, changing: bool = False
) -> HttpResponse:
    """Return the answer to an exception of a REST view.

    ``quiet``: a 503 is an expected answer and not logged. ``changing``: see ``describe``.
    """
    if isinstance(error, Http404):
        return container.page(request, 404)
    if isinstance(error, exceptions.UnsupportedMediaType):
        return container.empty(415)
    if isinstance(error, exceptions.NotAcceptable):
        return container.page(request, 406)
    if isinstance(error, AuthenticationFailed) and not request.path_info.startswith("/api/"):
        return container.page(request, 401)
    if isinstance(error, HeldElsewhereError) and error.url:
        return _redirect(request, error.url)
    status, reason = describe(error, changing=changing)
    if status == 503 and quiet:
        return JsonResponse({"reason": reason}, status=503)
    return answer_error(request, status, reason, error)


def _redirect(request: HttpRequest, url: str) -> HttpResponse:
    """Return the redirect of a request to another cluster, as Pulsar makes it."""
    query = request.GET.copy()
    query["authoritative"] = "false"
    served = request.resolver_match.kwargs.get("served_cluster") if request.resolver_match else ""
    path = request.path.removeprefix(path_of(served or ""))
    target = f"{url.split(',')[0].rstrip('/')}{path}?{query.urlencode()}"
    return HttpResponse(status=307, headers={"Location": target})


def answer_failure(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the answer to an exception raised outside a REST view."""
    answer = answer_error(request, *describe(error), error)
    if answer.status_code in (408, 413):
        answer.headers["Connection"] = "close"  # The rest of the body is not read.
    return answer


def describe(error: BaseException, *, changing: bool = False) -> tuple[int, str]:
    """Return the HTTP status and reason of an exception; 500 without details for an unexpected one.

    ``changing``: the call may have changed something before it failed.
    """
    if isinstance(error, RefusedAsError):
        return error.status, str(error)
    for kind, status, reason in TABLE:
        if isinstance(error, kind):
            if kind is DatabaseError:
                return status, reason_of(error)
            if isinstance(error, UNKNOWN_OUTCOME):
                advice = LOOK_FIRST if changing else TRY_AGAIN
                return status, f"{reason or error}{advice}"
            return status, reason or str(error)
    if isinstance(error, MagnetarError) and error.retriable:
        return 503, str(error)
    return 500, "An unexpected error occurred in the gateway"


def hop_of(error: BaseException | None) -> str:
    """Return the part of the instance that does not answer, a value of ``health.hops.Kind``; empty for none."""
    if isinstance(error, HopError):
        return error.hop
    return next((hop.value for kind, hop in HOPS if isinstance(error, kind)), "")


def answer_error(
    request: HttpRequest, status: int, reason: str, error: BaseException | None = None
) -> HttpResponse:
    """Return the JSON answer. A failure of the gateway (5xx except 501) is logged once, with the body's request id."""
    body: dict[str, str] = {"reason": reason}
    if isinstance(error, InvalidField):
        body["field"] = error.field
    if hop := hop_of(error):
        body["hop"] = hop
    if status >= 500 and status != 501:
        request_id = getattr(request, "audit_id", "") or uuid.uuid4().hex[:16]
        body["request_id"] = request_id
        log.log(
            logging.ERROR if status == 500 else logging.WARNING,
            "request failed status=%s request_id=%s method=%s path=%s error=%r",
            status,
            request_id,
            request.method,
            request.path,
            error,
            exc_info=error if status == 500 else None,
        )
    return JsonResponse(body, status=status)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the answer to an exception outside a REST view: Django's ``handler500``, called while it is handled."""
    error = sys.exc_info()[1] or RuntimeError("no error is handled")
    return answer_error(request, *describe(error), error)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return the answer to an unknown path: Django's ``handler404``."""
    if request.path_info.startswith("/api/"):
        return JsonResponse({"reason": f"No such path: {request.path_info}"}, status=404)
    return container.page(request, 404)
