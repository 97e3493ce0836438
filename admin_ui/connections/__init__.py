"""Connections of clients over all topics and brokers: their list, one of them, and its end."""

from admin_ui.connections.api import (
    ConnectionsView,
    ConnectionView,
    DisconnectClientView,
)
from admin_ui.connections.live import CONNECTIONS_CHANNEL
from admin_ui.resource import Resource

_PATH = "connections/<seg:broker>/<seg:connection>"

CONNECTIONS = Resource(
    routes={
        "connections": ConnectionsView,
        _PATH: ConnectionView,
        f"{_PATH}/disconnect": DisconnectClientView,
    },
    channels=(CONNECTIONS_CHANNEL,),
)
