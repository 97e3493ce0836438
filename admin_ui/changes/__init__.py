"""Change sets: one change of all objects that match a filter, previewed, confirmed and made as a tracked
object; and definitions as a file, which are applied by one."""

from admin_ui.changes.api import (
    ChangeSetItemsView,
    ChangeSetsView,
    ChangeSetView,
    ConfirmView,
    RetryView,
    StopView,
)
from admin_ui.changes.definition_api import ApplyView, DefinitionsView, DiffView
from admin_ui.resource import Resource

CHANGES = Resource(
    routes={
        "definitions": DefinitionsView,
        "definitions/diff": DiffView,
        "definitions/apply": ApplyView,
        "changes": ChangeSetsView,
        "changes/<str:set_id>": ChangeSetView,
        "changes/<str:set_id>/items": ChangeSetItemsView,
        "changes/<str:set_id>/confirm": ConfirmView,
        "changes/<str:set_id>/stop": StopView,
        "changes/<str:set_id>/retry": RetryView,
    }
)
