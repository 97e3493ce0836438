"""Dead letters of functions and sinks: messages that failed too often, on a topic of their own."""

from engine.base.names import TopicName
from engine.client.consuming.incoming import Incoming
from engine.client.producing.outgoing import OutgoingMessage
from engine.functions.instance.instance_plan import InstancePlan

REASON_CHARS = 1000


def dead_letter(
    plan: InstancePlan, message: Incoming, text: str, token: object
) -> tuple[str, OutgoingMessage]:
    """Return the topic of a failed message's dead letter, and the letter. ``text``: a trace, whose last line is the
    reason."""
    base = str(TopicName.parse(message.topic).partitioned)
    ledger, entry = message.position
    properties = message.properties | {
        "REAL_TOPIC": base,
        "ORIGIN_MESSAGE_ID": f"{ledger}:{entry}:{message.source.partition}:{message.batch_index}",
        "EXCEPTION": text.strip().rpartition("\n")[2][:REASON_CHARS],
    }
    letter = OutgoingMessage(
        message.content or b"",
        token,
        key=message.key,
        ordering_key=message.ordering_key,
        properties=properties,
        event_ms=message.event_ms,
    )
    topic = plan.dead_letter_topic or f"{base}-{plan.subscription or plan.full_name}-DLQ"
    return topic, letter
