"""Alerts: rules, channels, firings and silences."""

from admin_ui.alerts import api
from admin_ui.resource import Resource

ALERTS = Resource(
    routes={
        "alerts/rules": api.RulesView,
        "alerts/rules/<number:row_id>": api.RuleView,
        "alerts/preview": api.PreviewView,
        "alerts/channels": api.ChannelsView,
        "alerts/channels/<number:row_id>": api.ChannelView,
        "alerts/channels/<number:row_id>/test": api.ChannelTestView,
        "alerts/firings": api.FiringsView,
        "alerts/firings/<number:row_id>/acknowledge": api.AcknowledgementView,
        "alerts/silences": api.SilencesView,
        "alerts/silences/<number:row_id>": api.SilenceView,
        "alerts/prometheus-rules": api.PrometheusRulesView,
        "alerts/dashboard": api.DashboardView,
    }
)
"""REST of alerts."""
