"""The support bundle: facts for those who look for a fault, as one file."""

from admin_ui.resource import Resource
from admin_ui.support.api import SupportBundleView

SUPPORT = Resource(routes={"support-bundle": SupportBundleView})
