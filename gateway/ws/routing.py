"""WebSocket routes of Pulsar's data plane."""

from typing import Any

from django.urls import re_path

from gateway.ws import consumer, producer

_TOPIC = (
    r"(?P<domain>persistent|non-persistent)/(?P<tenant>[^/]+)/(?P<namespace>[^/]+)/(?P<topic>[^/]+)"
)


def _route(pattern: str, application: Any) -> Any:
    # Channels' router takes Django's patterns with ASGI callables, which Django's types know nothing of
    return re_path(pattern, application)


websocket_urlpatterns = [
    _route(rf"^ws/v2/producer/{_TOPIC}/?$", producer.application),
    _route(rf"^ws/v2/consumer/{_TOPIC}/(?P<subscription>[^/]+)/?$", consumer.consumer),
    _route(rf"^ws/v2/reader/{_TOPIC}/?$", consumer.reader),
]
