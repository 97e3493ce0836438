"""Names of a list that its viewer sees."""

from collections.abc import Iterable, Sequence

from engine.auth.viewer import Viewer
from engine.base.names import NamespaceName


def seen_tenants(viewer: Viewer, names: Iterable[str]) -> list[str]:
    """Return the tenants that are seen."""
    return [name for name in names if viewer.sees_tenant(name)]


def seen_namespaces(viewer: Viewer, names: Iterable[str]) -> list[str]:
    """Return the namespaces that are seen, of full names."""
    return [name for name in names if viewer.sees(name)]


def seen_topics(viewer: Viewer, namespace: NamespaceName, names: Sequence[str]) -> Sequence[str]:
    """Return the topics of a namespace: all, or none."""
    return names if viewer.sees(str(namespace)) else ()
