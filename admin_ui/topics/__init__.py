"""The list of topics, and one topic in full."""

from admin_ui.calls import TOPIC
from admin_ui.resource import Resource
from admin_ui.topics.api import ScopesView, TopicsFileView, TopicsView, TopicView
from admin_ui.topics.live import TOPIC_CHANNEL, TOPICS_CHANNEL

TOPICS = Resource(
    routes={
        "topics": TopicsView,
        "topics/export": TopicsFileView,
        "scopes": ScopesView,
        TOPIC: TopicView,
    },
    channels=(TOPICS_CHANNEL, TOPIC_CHANNEL),
)
