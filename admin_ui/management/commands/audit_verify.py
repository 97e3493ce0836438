"""``manage.py audit_verify``: check the audit log by its chain of hashes."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    """Print the number and digest of the last link; fail with the first entry that was changed, removed or inserted."""

    help = "Check that no entry of the audit log was changed, removed or inserted behind the gateway's back"
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--noted",
            metavar="NUMBER:DIGEST",
            help="a link that an earlier run has printed, which must still be in the chain",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        from admin_ui.audit.verifying import verify

        report = verify(_noted(options["noted"]))
        if report.problem:
            raise CommandError(f"audit log: {report.problem}")
        older = f", entries up to {report.removed_id} are not kept or older than the chain"
        self.stdout.write(
            f"{report.entries} entries verified{older if report.removed_id else ''};"
            f" last link {report.seq}:{report.digest}"
        )


def _noted(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    number, colon, digest = text.partition(":")
    if not colon or not number.isdigit() or len(digest) != 64:
        raise CommandError("--noted must be NUMBER:DIGEST as an earlier run has printed them")
    return int(number), digest
