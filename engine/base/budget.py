"""Budget of bytes and items in flight, with a high and a low mark for backpressure."""

from collections.abc import Callable

from engine.base.errors import MisuseError


class Budget:
    """Counts of held bytes and items. The budget refuses nothing; its owner checks ``fits`` or obeys the marks.

    ``on_high`` is called once when either count reaches its maximum, ``on_low`` once when both have fallen to their
    low marks again; both are called synchronously by ``take`` and ``give``. ``low`` is a fraction of the maxima.

    Bytes and items are also taken from ``parent``. A budget that takes from a parent that is high is high until the
    parent is low again. ``share`` bytes are exempt: only the bytes above them are taken from the parent, and a budget
    that holds no more than its share is not blocked by the parent.
    """

    __slots__ = (
        "_bytes_low", "_high", "_items_low", "_on_high", "_on_low", "_parent", "_share", "_waiting",
        "bytes", "bytes_max", "high", "items", "items_max",
    )  # fmt: skip

    def __init__(
        self,
        bytes_max: int,
        items_max: int = 1 << 62,
        *,
        low: float = 0.5,
        on_high: Callable[[], None] | None = None,
        on_low: Callable[[], None] | None = None,
        parent: "Budget | None" = None,
        share: int = 0,
    ) -> None:
        if bytes_max < 1 or items_max < 1 or not 0 <= low <= 1:
            raise MisuseError(
                f"a budget needs maxima >= 1 and 0 <= low <= 1, not {bytes_max}, {items_max}, {low}"
            )
        self.bytes_max = bytes_max
        self.items_max = items_max
        self.bytes = 0
        self.items = 0
        self.high = False
        """True while the budget's own counts or its parent's are high."""
        self._high = False
        self._bytes_low = int(bytes_max * low)
        self._items_low = int(items_max * low)
        self._on_high = on_high
        self._on_low = on_low
        self._parent = parent
        self._share = share
        self._waiting: dict[Budget, None] = {}
        """Child budgets that are high until this one is low."""

    def fits(self, size: int, items: int = 1) -> bool:
        """Return whether this addition stays within both maxima; any addition fits into an empty budget."""
        if not self.items and not self.bytes:
            return True
        return self.bytes + size <= self.bytes_max and self.items + items <= self.items_max

    def take(self, size: int, items: int = 1) -> None:
        """Count ``size`` bytes and ``items`` items as held."""
        self.bytes = held = self.bytes + size
        self.items += items
        if held >= self.bytes_max or self.items >= self.items_max:
            self._high = True
            self._rise()
        parent = self._parent
        if parent is not None:
            share = self._share
            if share:
                size = max(held - share, 0) - max(held - size - share, 0)
            parent.take(size, items)
            if parent.high and (not share or held > share):
                parent._waiting[self] = None
                self._rise()

    def give(self, size: int, items: int = 1) -> None:
        """Release bytes and items. Raises MisuseError when more are released than are held."""
        self.bytes = held = self.bytes - size
        self.items = count = self.items - items
        if held < 0 or count < 0:
            raise MisuseError(f"budget gave back too much: {held} bytes, {count} items")
        if self._high and held <= self._bytes_low and count <= self._items_low:
            self._high = False
            self._fall()
        parent = self._parent
        if parent is not None:
            share = self._share
            if share:
                if held <= share and parent._waiting.pop(self, self) is None:
                    self._fall()
                size = max(held + size - share, 0) - max(held - share, 0)
            parent.give(size, items)

    def unheeded(self) -> None:
        """Stop calling ``on_high`` and ``on_low``."""
        self._on_high = self._on_low = None

    def _rise(self) -> None:
        if not self.high:
            self.high = True
            if self._on_high is not None:
                self._on_high()

    def _fall(self) -> None:
        """Become low, and let waiting children become low, unless another reason to be high remains."""
        if self._high or (self._parent is not None and self in self._parent._waiting):
            return
        self.high = False
        if self._on_low is not None:
            self._on_low()
        waiting, self._waiting = self._waiting, {}
        for budget in waiting:
            budget._fall()
