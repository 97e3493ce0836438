"""Content negotiation: we answer in JSON only."""

from typing import Any

from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request

from gateway.http import container


class AcceptsJson(DefaultContentNegotiation):
    """An Accept header without JSON gets 406, a missing or odd one gets JSON."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        """The JSON renderer. Raises NotAcceptable."""
        if not container.accepts_json(request._request):
            raise exceptions.NotAcceptable
        return renderers[0], renderers[0].media_type
