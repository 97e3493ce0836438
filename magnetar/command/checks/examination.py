"""The choice of checks for a cluster, and the report."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import click

from magnetar.command.checks import brokers, gateway, machine
from magnetar.command.checks.findings import BAD, Check, Diagnosis, Severity, all_findings, info
from magnetar.command.connecting.admin import administered
from magnetar.command.connecting.options import ENCRYPTED, ClusterAddress
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.messages.shown import json_line, safe

REST_S = 4.0
ORDER = (Severity.PROBLEM, Severity.UNKNOWN, Severity.WARNING, Severity.INFO, Severity.OK)


async def examine(
    address: ClusterAddress, data_dir: Path, *, show_all: bool, as_json: bool
) -> bool:
    """Run all checks and print the findings. Return whether there is a problem, or a check that could not be made."""
    async with administered(address, timeout_s=REST_S) as admin:
        view = gateway.RestAnswers(admin)
        try:
            findings = await all_findings(_checks(address, data_dir, view))
        finally:
            await view.close()
    is_bad = any(finding.severity in BAD for finding in findings)
    if as_json:
        click.echo(json_line({"ok": not is_bad, "findings": [f.as_json() for f in findings]}))
    else:
        click.echo(report(findings, show_all=show_all))
    return is_bad


def _checks(address: ClusterAddress, data_dir: Path, view: gateway.RestAnswers) -> dict[str, Check]:
    checks: dict[str, Check] = {"python": machine.check_python}
    if address.is_local:
        checks |= {
            "/dev/shm": machine.check_memory_files,
            "data folder": partial(machine.check_folder, data_dir),
            "instance": partial(machine.check_instance, data_dir),
            "certificates": partial(machine.check_certificates, data_dir),
            "programs": machine.check_analyses,
        }
    for url in address.urls:
        checks[f"broker {url}"] = partial(brokers.check_url, address, url)
    checks |= {
        "REST": partial(gateway.check_rest, view),
        "parts": partial(gateway.check_parts, view),
        "leader": partial(gateway.check_leader, view),
        "bookies": partial(gateway.check_quorums, view),
        "advertised addresses": partial(_advertised, address, view),
    }
    secure = [url for url in address.urls if url.startswith(ENCRYPTED)]
    secure += [address.admin_url] if address.admin_url.startswith("https") else []
    for url in secure:
        checks[f"certificate of {url}"] = partial(brokers.check_certificate, address, url)
    return checks


async def _advertised(
    address: ClusterAddress, view: gateway.RestAnswers
) -> AsyncIterator[Diagnosis]:
    """Check the address that each broker advertises."""
    try:
        rows = await view.rows("brokers")
    except CommandFailed as error:
        if error.exit_code != Exit.MISSING:
            raise
        yield info("advertised addresses", gateway.NO_GATEWAY)
        return
    checks: dict[str, Check] = {
        row["id"]: partial(brokers.check_advertised, address, row["id"], row["url"]) for row in rows
    }
    for finding in await all_findings(checks, timeout_s=5.0):
        yield finding


def report(findings: list[Diagnosis], *, show_all: bool) -> str:
    """Return the findings as text, the worst first."""
    shown = [
        finding
        for severity in ORDER
        for finding in findings
        if finding.severity is severity and (show_all or severity in ORDER[:3])
    ]
    lines = []
    for finding in shown:
        lines.append(f"{finding.severity.value:<8} {safe(finding.part)}: {safe(finding.text)}")
        if finding.remedy:
            lines.append(f"         -> {safe(finding.remedy)}")
    counts = {severity: sum(f.severity is severity for f in findings) for severity in ORDER}
    parts = [f"{counts[s]} {s.value}" for s in ORDER if counts[s]]
    lines.append(f"{len(findings)} findings: {', '.join(parts)}")
    if not any(finding.severity in BAD for finding in findings):
        unchecked = [f.part for f in findings if f.text == gateway.NO_GATEWAY]
        lines.append(
            f"all that was checked is well; not checked: {', '.join(unchecked)}"
            if unchecked
            else "all is well"
        )
    return "\n".join(lines)
