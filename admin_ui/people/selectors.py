"""Rows of people for superusers. The functions use the database, and run in a thread."""

from typing import Any

from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from admin_ui.lists.record_order import RecordOrder
from admin_ui.params import Params, window
from engine.base.errors import NotFound
from gateway.people.accounts import is_a_superuser, users
from gateway.people.acting import person_of, roles_of
from gateway.people.models import PersonSession

Body = dict[str, Any]


ORDER = RecordOrder(
    {
        "name": "username",
        "display_name": "person__display_name",
        "active": "is_active",
        "provider": "person__provider",
        "created_at": "date_joined",
        "last_sign_in_at": "last_login",
        "sessions": "sessions",
    },
    "name",
    ties="username",
    nullable=("person__display_name", "person__provider", "last_login"),
)


def people(params: Params) -> Body:
    """Return a window of the people whose names contain ``q``. Raises InvalidField."""
    (offset, limit), sort, q = window(params), ORDER.sort_of(params), params.get("q", "")
    chosen = users()
    if q:
        chosen = chosen.filter(Q(username__icontains=q) | Q(person__display_name__icontains=q))
    rows = [row(user) for user in ORDER.window(_with_sessions(chosen), sort, offset, limit)]
    return {"total": chosen.count(), "offset": offset, "limit": limit, "rows": rows}


def _with_sessions(chosen: Any) -> Any:
    """Return users with the numbers of their open sessions."""
    sessions = (
        PersonSession.objects.filter(user_id=OuterRef("pk"), expire_date__gt=timezone.now())
        .order_by()
        .values("user_id")
        .annotate(number=Count("pk"))
        .values("number")
    )
    return chosen.annotate(sessions=Coalesce(Subquery(sessions), 0))


def row(user: Any) -> Body:
    """Return a person's row."""
    person = person_of(user)
    last = user.last_login
    return {
        "name": user.get_username(),
        "display_name": person.display_name if person is not None else "",
        "active": user.is_active,
        "superuser": is_a_superuser(user),
        "roles": [{"role": item.role, "level": item.level} for item in roles_of(user)],
        "provider": person.provider if person is not None else "",
        "must_change_password": person is not None and person.must_change_password,
        "created_at": int(user.date_joined.timestamp() * 1000),
        "last_sign_in_at": None if last is None else int(last.timestamp() * 1000),
        "sessions": getattr(user, "sessions", 0),
    }


def person_row(name: str) -> Body:
    """Return the row of the person with a name. Raises NotFound."""
    user = _with_sessions(users()).filter(username=name).first()
    if user is None:
        raise NotFound(f"No person {name!r}")
    return row(user)
