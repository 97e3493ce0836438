"""The parts of the cluster: brokers with their addresses, the bundles that they own, and bookies."""

from admin_ui.cluster.api import (
    AddressesView,
    BookiesView,
    BrokersView,
    BundlesView,
    DrainBrokerView,
    EndDrainView,
    LoadBalanceView,
    SplitBundleView,
    TransferBundleView,
    UnloadBrokerView,
    UnloadBundleView,
    UnloadNamespaceView,
)
from admin_ui.resource import Resource

BUNDLE = "bundles/<seg:tenant>/<seg:namespace>/<seg:bundle>"
CLUSTER = Resource(
    routes={
        "addresses": AddressesView,
        "brokers": BrokersView,
        "load-balance": LoadBalanceView,
        "bundles": BundlesView,
        "bookies": BookiesView,
        f"{BUNDLE}/unload": UnloadBundleView,
        f"{BUNDLE}/split": SplitBundleView,
        f"{BUNDLE}/transfer": TransferBundleView,
        "tenants/<seg:tenant>/namespaces/<seg:namespace>/unload": UnloadNamespaceView,
        "brokers/<seg:broker>/unload": UnloadBrokerView,
        "brokers/<seg:broker>/drain": DrainBrokerView,
        "brokers/<seg:broker>/drain/end": EndDrainView,
    }
)
