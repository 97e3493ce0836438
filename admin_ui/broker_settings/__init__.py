"""Settings that change while brokers run: the values in force with their origin, and changes made exactly as
previewed."""

from admin_ui.broker_settings.api import SettingsView, SettingView
from admin_ui.resource import Resource

BROKER_SETTINGS = Resource(
    routes={"settings": SettingsView, "settings/<seg:setting>": SettingView},
)
"""REST of the settings of brokers."""
