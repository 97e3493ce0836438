"""The people who may sign in at the console."""

from admin_ui.people import api
from admin_ui.resource import Resource

PEOPLE = Resource(
    routes={
        "people": api.PeopleView,
        "people/<seg:name>": api.PersonView,
        "people/<seg:name>/reset-password": api.ResetPasswordView,
        "people/<seg:name>/sessions": api.PersonSessionsView,
        "people/<seg:name>/sessions/<seg:session_id>": api.PersonSessionView,
    }
)
