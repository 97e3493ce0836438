"""Rights of the owners of runs, which are checked again when a run starts: it may have waited since its launch."""

from django.conf import settings

from engine.auth.settings import names
from engine.base.errors import MagnetarError
from gateway.jobs.models import JobRun


class OwnerRefusedError(MagnetarError):
    """The role that launched a run may not run analyses now. The text is for users."""


def check_owner(run: JobRun) -> None:
    """Check that the owner of a run is a superuser, where authorization is on: Spark reads all tenants (A23).

    Raises OwnerRefusedError.
    """
    identity = settings.IDENTITY
    if not identity.authorization.authorization_enabled:
        return
    if run.created_by not in names(identity.general.super_user_roles):
        raise OwnerRefusedError(
            f"role {run.created_by!r} may not run analyses: it is no superuser (super_user_roles)"
        )
