"""Copies, moves and redrives of messages, and the topics of dead letters."""

from admin_ui.calls import TOPIC
from admin_ui.copies import api, letters_api
from admin_ui.resource import Resource

COPIES = Resource(
    routes={
        "dead-letters": letters_api.DeadLetterTopicsView,
        f"{TOPIC}/dead-letters": letters_api.DeadLettersView,
        f"{TOPIC}/copies": api.TopicCopiesView,
        "copies": api.CopiesView,
        "copies/<seg:copy_id>": api.CopyView,
        "copies/<seg:copy_id>/stop": api.StopCopyView,
        "copies/<seg:copy_id>/resume": api.ResumeCopyView,
        "copies/<seg:copy_id>/undo": api.UndoCopyView,
    }
)
"""REST of copies and dead letters."""
