"""Mistakes by which secrets get into support bundles, and in removals and roll-backs."""

from tests.mutants.edit import Edit

TESTS = "unit/operate/test_support.py"
NO_SECRET = (f"{TESTS}::test_no_secret_is_in_a_bundle",)
SUPPORT = "magnetar/operate/support.py"
REDACTION = "magnetar/operate/redaction.py"

EDITS = (
    Edit(
        "support-shows-undeclared-settings",
        f"{SUPPORT}::_given",
        "setting is not None and not setting.is_secret",
        "setting is None or not setting.is_secret",
        NO_SECRET,
        "K5",
    ),
    Edit(
        "support-knows-no-secret-files",
        f"{SUPPORT}::secret_files",
        "if file.secret",
        "if not file.secret",
        NO_SECRET,
        "K5",
    ),
    Edit(
        "support-shows-what-looks-like-a-secret",
        f"{REDACTION}::Redactor.text",
        "text = form.sub(_hide, text)",
        "pass",
        NO_SECRET,
        "K5",
    ),
    Edit(
        "a-later-release's-journal-is-taken-for-unused-files",
        "bookie/storage/journal/journal.py::read_headers",
        "later := later_version(block, FILE_MAGIC, VERSION)",
        "later := 0",
        (
            "unit/bookie/storage/test_later_formats.py::"
            "test_a_journal_of_a_later_release_refuses_the_start",
        ),
        "K6",
    ),
    Edit(
        "wipe-of-a-part-leaves-no-mark",
        "magnetar/operate/wipe.py::wipe_instance",
        "write_mark(data, WIPING)",
        "pass",
        ("unit/operate/test_wipe.py::test_a_removal_that_is_killed_is_marked_and_continued",),
    ),
    Edit(
        "backup-has-its-name-before-it-is-sealed",
        "magnetar/operate/backup.py::back_up",
        "partial.rename(target)",
        "pass",
        ("unit/operate/test_whole_backups.py::test_secrets_are_named_and_for_this_user_alone",),
    ),
)
