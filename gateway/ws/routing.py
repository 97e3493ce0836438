"""WebSocket routes of Pulsar's data plane."""

from django.urls import re_path

from gateway.ws import consumer, producer

_TOPIC = (
    r"(?P<domain>persistent|non-persistent)/(?P<tenant>[^/]+)/(?P<namespace>[^/]+)/(?P<topic>[^/]+)"
)

websocket_urlpatterns = [
    re_path(rf"^ws/v2/producer/{_TOPIC}/?$", producer.application),
    re_path(rf"^ws/v2/consumer/{_TOPIC}/(?P<subscription>[^/]+)/?$", consumer.consumer),
    re_path(rf"^ws/v2/reader/{_TOPIC}/?$", consumer.reader),
]
