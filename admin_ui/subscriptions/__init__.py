"""The list of all subscriptions, who holds messages of one, and changes of one: of its position and its target, its
deletion, the disconnection of its consumers, and the acknowledgement of one message."""

from admin_ui.calls import TOPIC
from admin_ui.resource import Resource
from admin_ui.subscriptions.api import (
    AcknowledgeView,
    AgeTargetView,
    ChangesView,
    DeleteView,
    DisconnectView,
    HoldersView,
    MessageHoldersView,
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
        f"{_PATH}/holders": HoldersView,
        f"{_PATH}/acknowledge": AcknowledgeView,
        f"{TOPIC}/messages/<seg:message>/holders": MessageHoldersView,
        f"{TOPIC}/changes": ChangesView,
    },
    channels=(SUBSCRIPTIONS_CHANNEL,),
)
