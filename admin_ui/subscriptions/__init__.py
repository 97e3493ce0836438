"""Changes of a subscription's position, its deletion, and the disconnection of its consumers. The topic's page shows
subscriptions."""

from admin_ui.calls import TOPIC
from admin_ui.resource import Resource
from admin_ui.subscriptions.api import (
    ChangesView,
    DeleteView,
    DisconnectView,
    ResetView,
    SkipAllView,
    SkipView,
    UndoView,
)

_PATH = f"{TOPIC}/subscriptions/<seg:subscription>"

SUBSCRIPTIONS = Resource(
    routes={
        f"{_PATH}/skip-all": SkipAllView,
        f"{_PATH}/skip": SkipView,
        f"{_PATH}/reset": ResetView,
        f"{_PATH}/undo": UndoView,
        f"{_PATH}/delete": DeleteView,
        f"{_PATH}/disconnect": DisconnectView,
        f"{TOPIC}/changes": ChangesView,
    }
)
