"""The list of all subscriptions, and changes of one: of its position and its target, its deletion, and the
disconnection of its consumers."""

from admin_ui.calls import TOPIC
from admin_ui.resource import Resource
from admin_ui.subscriptions.api import (
    AgeTargetView,
    ChangesView,
    DeleteView,
    DisconnectView,
    ResetView,
    SkipAllView,
    SkipView,
    SubscriptionsView,
    UndoView,
)
from admin_ui.subscriptions.live import SUBSCRIPTIONS_CHANNEL

_PATH = f"{TOPIC}/subscriptions/<seg:subscription>"

SUBSCRIPTIONS = Resource(
    routes={
        "subscriptions": SubscriptionsView,
        f"{_PATH}/skip-all": SkipAllView,
        f"{_PATH}/skip": SkipView,
        f"{_PATH}/reset": ResetView,
        f"{_PATH}/undo": UndoView,
        f"{_PATH}/age-target": AgeTargetView,
        f"{_PATH}/delete": DeleteView,
        f"{_PATH}/disconnect": DisconnectView,
        f"{TOPIC}/changes": ChangesView,
    },
    channels=(SUBSCRIPTIONS_CHANNEL,),
)
