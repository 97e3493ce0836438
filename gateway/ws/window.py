"""The deliveries of one socket that are not answered. Pure."""

from engine.client.consuming.incoming import Given

OUT_MAX = 50_000
"""Messages remembered; of older ones the id alone must do."""


class Window:
    """W1. In push mode an answer gives back what all deliveries of its message took, so that free permits and
    unanswered deliveries always add up to what was allowed, whatever comes again (a broker that restarts, a topic that
    moves, an acknowledgement that was late) and however often the client answers. In pull mode only the client permits.
    """

    def __init__(self) -> None:
        self._out: dict[str, tuple[Given, int]] = {}

    def delivered(self, message_id: str, given: Given) -> None:
        """A message goes out."""
        out = self._out
        earlier = out.get(message_id)
        if earlier is not None:
            out[message_id] = (given, earlier[1] + 1)
            return
        if len(out) >= OUT_MAX:
            del out[next(iter(out))]
        out[message_id] = (given, 1)

    def answered(self, message_id: str) -> tuple[Given, int] | None:
        """The last delivery of a message that is out, and how many there were; None for any other. It is out no
        more."""
        return self._out.pop(message_id, None)
