"""Mistakes in backups and restores."""

from tests.mutants.edit import Edit

SAVING = "engine/backup/saving.py::Saver"
RESTORING = "engine/backup/restoring.py::Restorer"
UNIT = "unit/backup"
SAVING_TESTS = f"{UNIT}/test_saving.py"
RESTORING_TESTS = f"{UNIT}/test_restoring.py"

EDITS = (
    Edit(
        "backup-ends-at-what-bookies-know-as-confirmed",
        f"{SAVING}._copy_ledger",
        "unconfirmed=True",
        "unconfirmed=False",
        (f"{SAVING_TESTS}::test_an_open_ledger_is_read_up_to_its_last_receipt_and_not_fenced",),
        "K1",
    ),
    Edit(
        "backup-fences-the-ledgers-of-running-brokers",
        f"{SAVING}._copy_ledger",
        "recover=False",
        "recover=True",
        (f"{SAVING_TESTS}::test_an_open_ledger_is_read_up_to_its_last_receipt_and_not_fenced",),
        "K1",
    ),
    Edit(
        "backup-reports-no-lost-ledger",
        f"{SAVING}._settled",
        "if value == before:",
        "if value == before and not absent:",
        (f"{SAVING_TESTS}::test_a_ledger_that_the_cluster_has_lost_is_named",),
    ),
    Edit(
        "backup-is-named-before-its-files-are-durable",
        "engine/backup/part_files.py::PartWriter._end_part",
        "await self._lane.run(self._file.fdatasync)",
        "pass",
        (
            f"{UNIT}/test_interrupted_backups.py::"
            "test_a_backup_that_is_killed_at_any_step_is_none_or_complete",
        ),
        "K2",
    ),
    Edit(
        "restore-leaves-no-mark",
        f"{RESTORING}._begin",
        "await self.store.create(RESTORING, own)",
        "pass",
        (
            f"{RESTORING_TESTS}::"
            "test_a_restore_that_is_interrupted_at_any_call_is_marked_and_continued",
        ),
        "K3",
    ),
    Edit(
        "restore-is-not-compared",
        f"{RESTORING}.restore",
        "await self._compare()",
        "pass",
        (f"{RESTORING_TESTS}::test_a_write_of_another_program_meanwhile_is_detected",),
        "K4",
    ),
)
