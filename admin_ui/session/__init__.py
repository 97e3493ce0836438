"""The caller's own session: sign-in and sign-out, the role that it acts as, its password, its other sessions."""

from admin_ui.resource import Resource
from admin_ui.session import api

SESSION = Resource(
    routes={
        "session": api.SessionView,
        "session/sign-in": api.SignInView,
        "session/sign-out": api.SignOutView,
        "session/set-up": api.SetUpView,
        "session/acting-role": api.ActingRoleView,
        "session/view-as": api.ViewAsView,
        "session/password": api.PasswordView,
        "session/sessions": api.SessionsView,
        "session/sessions/<seg:session_id>": api.OwnSessionView,
    }
)
