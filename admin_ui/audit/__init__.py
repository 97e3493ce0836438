"""The audit log: written by the middleware ``recording.AuditRecorder``, and its views."""

from admin_ui.audit.api import (
    AuditEntryView,
    AuditFileView,
    AuditVerificationView,
    AuditView,
    MarksView,
)
from admin_ui.resource import Resource

AUDIT = Resource(
    routes={
        "audit": AuditView,
        "audit/<number:entry_id>": AuditEntryView,
        "audit/verify": AuditVerificationView,
        "audit.csv": AuditFileView,
        "marks": MarksView,
    }
)
