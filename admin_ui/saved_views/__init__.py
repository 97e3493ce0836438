"""Saved views: a list's search parameters under a name."""

from admin_ui.resource import Resource
from admin_ui.saved_views.api import SavedViewView, ViewsView

SAVED_VIEWS = Resource(routes={"views": ViewsView, "views/<number:view_id>": SavedViewView})
