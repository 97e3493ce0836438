"""Pages of the metadata server for those who operate it: ``/metrics``, ``/ready``, ``/live``."""

from collections.abc import AsyncIterator, Callable

from engine.base.clock import Clock
from engine.base.metrics import described, of_process
from engine.metadata.server.serving.four_letter_words import ServerFigures
from engine.net.http import Handler, metrics_page, pages, ready_page


def status_pages(
    figures: Callable[[], ServerFigures], why_not: Callable[[], str | None], clock: Clock
) -> Handler:
    """Return the handler of the pages. ``why_not`` returns the reason why the server is not ready; None when it is."""

    async def metrics() -> AsyncIterator[bytes]:
        text = of_process(clock)
        if why_not() is None:
            text += families(figures())
        yield text.encode()

    return pages(
        {
            "/metrics": metrics_page(metrics),
            "/ready": ready_page(why_not),
            "/live": ready_page(lambda: None),
        }
    )


def families(server: ServerFigures) -> str:
    """Return the families: those that Apache ZooKeeper's own page has under its names, others under ours."""
    return "".join(
        described(name, kind, text, [("", value)])
        for name, kind, text, value in (
            ("znode_count", "gauge", "Nodes.", server.nodes),
            ("ephemerals_count", "gauge", "Ephemeral nodes.", server.ephemerals),
            ("watch_count", "gauge", "Watches.", server.watches),
            ("approximate_data_size", "gauge", "Bytes of data and paths.", server.data_bytes),
            ("num_alive_connections", "gauge", "Connections.", len(server.connections)),
            ("global_sessions", "gauge", "Sessions.", server.sessions),
            ("outstanding_requests", "gauge", "Requests that wait.", server.outstanding),
            ("packets_received", "counter", "Requests since the start.", server.received),
            ("packets_sent", "counter", "Answers since the start.", server.sent),
            ("uptime", "gauge", "Milliseconds since the start.", server.uptime),
            (
                "magnetar_metadata_server_writable",
                "gauge",
                "0 while writes are refused, because the disk is full.",
                int(server.writable),
            ),
            (
                "magnetar_metadata_server_syncs_total",
                "counter",
                "Syncs of the log since the start.",
                server.syncs,
            ),
            (
                "magnetar_metadata_server_log_bytes",
                "gauge",
                "Bytes of the log since the last snapshot.",
                server.log_bytes,
            ),
            (
                "magnetar_metadata_server_snapshot_bytes",
                "gauge",
                "Bytes of the last snapshot.",
                server.snapshot_bytes,
            ),
            (
                "magnetar_metadata_server_refused_connections_total",
                "counter",
                "Connections above a limit since the start.",
                server.refused,
            ),
        )
    )
