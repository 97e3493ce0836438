"""Counts every HTTP answer for ``/metrics``."""

from django.http import HttpRequest

from gateway.http.duplex import Answer, middleware
from gateway.services import metrics

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


def _count(request: HttpRequest, answer: Answer) -> Answer:
    # A client may invent methods; the label may not grow with them.
    method = request.method if request.method in METHODS else "other"
    metrics.requests.labels(method, str(answer.status_code)).inc()
    return answer


count_requests = middleware(after=_count)
