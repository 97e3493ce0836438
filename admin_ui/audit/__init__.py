"""Who changed what: recorded by the middleware ``recording.AuditRecorder``, and shown."""

from admin_ui.audit.api import AuditView
from admin_ui.resource import Resource

AUDIT = Resource(routes={"audit": AuditView})
