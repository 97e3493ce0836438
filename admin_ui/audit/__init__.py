"""Who changed what: recorded by the middleware ``recording.Recorder``, and shown."""

from admin_ui.audit.api import AuditView
from admin_ui.resource import Resource

AUDIT = Resource(routes={"audit": AuditView})
