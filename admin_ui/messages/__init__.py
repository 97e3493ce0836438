"""The messages of a topic: browsed from any place, filtered, and one by its position; and messages published to it."""

from admin_ui.calls import TOPIC
from admin_ui.messages.api import (
    MessagesExportView,
    MessagesView,
    MessageValueView,
    MessageView,
)
from admin_ui.resource import Resource

MESSAGES = Resource(
    routes={
        f"{TOPIC}/messages": MessagesView,
        f"{TOPIC}/messages/export": MessagesExportView,
        f"{TOPIC}/messages/<seg:message>": MessageView,
        f"{TOPIC}/messages/<seg:message>/value": MessageValueView,
    }
)
