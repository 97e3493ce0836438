"""``/admin/v3/functions``, ``sources``, ``sinks`` and ``packages``."""
