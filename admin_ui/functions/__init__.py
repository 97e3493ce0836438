"""Functions, sources and sinks of a cluster: their list, each with its instances, and the changes of them."""

from admin_ui.functions.api import (
    ConnectorsView,
    DeleteFunctionView,
    DeployFunctionView,
    FunctionCodeView,
    FunctionLogView,
    FunctionsView,
    FunctionView,
    RunFunctionView,
    TryFunctionView,
)
from admin_ui.functions.live import FUNCTIONS_CHANNEL
from admin_ui.resource import Resource

_ONE = "functions/<seg:component>/<seg:tenant>/<seg:namespace>/<seg:name>"
FUNCTIONS = Resource(
    routes={
        "functions": FunctionsView,
        "connectors": ConnectorsView,
        _ONE: FunctionView,
        f"{_ONE}/log": FunctionLogView,
        f"{_ONE}/code": FunctionCodeView,
        f"{_ONE}/run": RunFunctionView,
        f"{_ONE}/delete": DeleteFunctionView,
        f"{_ONE}/deploy": DeployFunctionView,
        f"{_ONE}/try": TryFunctionView,
    },
    channels=(FUNCTIONS_CHANNEL,),
)
