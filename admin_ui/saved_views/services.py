"""Changes of saved views."""

from django.db import IntegrityError, transaction

from admin_ui.models import SavedView
from engine.base.errors import AlreadyExists, NotFound, Unprocessable
from gateway.services.clock import now_ms

VIEWS_PER_OWNER_MAX = 500


def save_view(*, owner: str, name: str, resource: str, query: dict[str, str]) -> SavedView:
    """Save a list's search parameters under a name. Raises AlreadyExists for a name in use, Unprocessable for too many
    views."""
    with transaction.atomic():
        if SavedView.objects.filter(owner=owner).count() >= VIEWS_PER_OWNER_MAX:
            raise Unprocessable(f"At most {VIEWS_PER_OWNER_MAX} views can be saved")
        try:
            return SavedView.objects.create(
                owner=owner, name=name, resource=resource, query=query, created_at_ms=now_ms()
            )
        except IntegrityError:
            raise AlreadyExists(f"A view named {name} exists already") from None


async def rename_view(*, owner: str, view_id: int, name: str) -> SavedView:
    """Rename a saved view of this owner. Raises NotFound, and AlreadyExists for a name in use."""
    try:
        changed = await SavedView.objects.filter(owner=owner, pk=view_id).aupdate(name=name)
    except IntegrityError:
        raise AlreadyExists(f"A view named {name} exists already") from None
    if not changed:
        raise NotFound("No such view")
    return await SavedView.objects.aget(owner=owner, pk=view_id)


async def delete_view(*, owner: str, view_id: int) -> None:
    """Delete a saved view of this owner. Raises NotFound."""
    deleted, _ = await SavedView.objects.filter(owner=owner, pk=view_id).adelete()
    if not deleted:
        raise NotFound("No such view")
