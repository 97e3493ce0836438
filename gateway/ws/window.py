"""The unanswered deliveries of one socket. Pure."""

from engine.client.consuming.incoming import Given

OUT_MAX = 50_000
"""Messages remembered; an answer to an older one is handled by its message id alone."""


class Window:
    """Unanswered deliveries by message id.

    In push mode an answer returns the permits of all deliveries of its message. So free permits and unanswered
    deliveries always add up to the permitted number, however often the client answers and whatever is redelivered: by
    a broker that restarts, a topic that moves, or a late acknowledgement (W1). In pull mode only the client permits.
    """

    def __init__(self) -> None:
        self._out: dict[str, tuple[Given, int]] = {}

    def delivered(self, message_id: str, given: Given) -> None:
        """Record a delivery."""
        out = self._out
        earlier = out.get(message_id)
        if earlier is not None:
            out[message_id] = (given, earlier[1] + 1)
            return
        if len(out) >= OUT_MAX:
            del out[next(iter(out))]
        out[message_id] = (given, 1)

    def answered(self, message_id: str) -> tuple[Given, int] | None:
        """Remove an unanswered message; return its last delivery and the number of its deliveries.

        Returns None for any other message id.
        """
        return self._out.pop(message_id, None)
