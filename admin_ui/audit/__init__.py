"""The audit log: written by the middleware ``recording.AuditRecorder``, and its view."""

from admin_ui.audit.api import AuditView
from admin_ui.resource import Resource

AUDIT = Resource(routes={"audit": AuditView})
