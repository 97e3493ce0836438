"""Payload rules: from whom the payloads of messages are hidden."""

from admin_ui.payload_rules.api import PayloadRulesView
from admin_ui.resource import Resource

PAYLOAD_RULES = Resource(routes={"payload-rules": PayloadRulesView})
