"""The list of topics, the page of a topic, and changes of a topic as a whole."""

from admin_ui.calls import TOPIC
from admin_ui.resource import Resource
from admin_ui.topics.api import (
    DeleteView,
    HeldSpaceView,
    MorePartitionsView,
    NamespaceHeldSpaceView,
    PropertiesView,
    ScopesView,
    TerminateView,
    TopicDetailView,
    TopicsFileView,
    TopicsView,
    TracesFileView,
    TracesView,
    UnloadView,
)
from admin_ui.topics.live import TOPIC_CHANNEL, TOPICS_CHANNEL

TOPICS = Resource(
    routes={
        "topics": TopicsView,
        "topics/export": TopicsFileView,
        "scopes": ScopesView,
        TOPIC: TopicDetailView,
        f"{TOPIC}/delete": DeleteView,
        f"{TOPIC}/terminate": TerminateView,
        f"{TOPIC}/unload": UnloadView,
        f"{TOPIC}/partitions": MorePartitionsView,
        f"{TOPIC}/properties": PropertiesView,
        f"{TOPIC}/held-space": HeldSpaceView,
        "tenants/<seg:tenant>/namespaces/<seg:namespace>/held-space": NamespaceHeldSpaceView,
        f"{TOPIC}/traces": TracesView,
        f"{TOPIC}/traces/opentelemetry": TracesFileView,
    },
    channels=(TOPICS_CHANNEL, TOPIC_CHANNEL),
)
