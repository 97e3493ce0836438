"""Load reports of the brokers in the form that administrators are shown. Pure."""

from collections.abc import Mapping

from engine.metadata.records import Document
from engine.ownership.load.plan import unusable
from engine.ownership.load.planned import PlanLimits
from engine.ownership.load.report import LoadReport


def report_rows(
    reports: Mapping[str, LoadReport], now_ms: int, limits: PlanLimits
) -> list[Document]:
    """Return one row for each broker, in order of id: its load now, and what its report counts.

    ``load`` is None, with ``why`` naming the reason, when no decision can be based on the report.
    """
    rows: list[Document] = []
    for broker_id, report in sorted(reports.items()):
        why = unusable(report, now_ms, limits)
        # A report without a time counts nothing: it is the registration of a broker that has not measured yet.
        measured = report.updated_ms is not None
        rows.append(
            {
                "broker": broker_id,
                "load": None if why else report.usage,
                "why": why,
                "updated_ms": report.updated_ms,
                "bundles": report.owned_count,
                "gains": len(report.gains) if measured else None,
                "losses": len(report.losses) if measured else None,
            }
        )
    return rows
