"""Sessions of users of the console."""

from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model

from gateway.people.backend import NAME
from gateway.people.sessions import SessionStore

CSRF_TOKEN = "a" * 32


async def session(*, superuser: bool = False) -> str:
    """Create the session of a user ``ann`` and return its cookies, with CSRF_TOKEN."""
    users: Any = get_user_model().objects
    user = await users.acreate(username="ann", is_superuser=superuser)
    store = SessionStore()
    await store.aset(SESSION_KEY, str(user.pk))
    await store.aset(BACKEND_SESSION_KEY, NAME)
    await store.aset(HASH_SESSION_KEY, user.get_session_auth_hash())
    await store.asave()
    return f"{settings.SESSION_COOKIE_NAME}={store.session_key}; csrftoken={CSRF_TOKEN}"
