"""Mistakes in the installation of Spark."""

from tests.mutants.edit import Edit

PACKAGES = "unit/gateway/standalone/on_demand/test_spark_packages.py"
OFFER = "unit/admin_ui/access/test_spark_offer.py"

EDITS = (
    Edit(
        "incomplete-spark-counts-as-installed",
        "gateway/standalone/on_demand/spark_packages.py::is_installed",
        "return not (environment.prefix / PARTIAL).exists() and all(",
        "return all(",
        (f"{PACKAGES}::test_a_killed_installation_counts_as_none_and_is_resumed",),
    ),
    Edit(
        "installer-outlives-its-installation",
        "gateway/standalone/on_demand/spark_packages.py::_call_installer",
        "preexec_fn=partial(die_with_parent, os.getpid()),",
        "",
        (f"{PACKAGES}::test_a_killed_installation_counts_as_none_and_is_resumed",),
    ),
    Edit(
        "anyone-installs-spark",
        "admin_ui/analyses/api.py::SparkView",
        "read_rights, write_rights = AUTHENTICATED, SUPERUSER",
        "read_rights = write_rights = AUTHENTICATED",
        (f"{OFFER}::test_only_a_superuser_begins_the_installation",),
    ),
    Edit(
        "run-queued-without-spark",
        "admin_ui/analyses/api.py::RunsView.post",
        "await asyncio.to_thread(installation.check_installed)",
        "",
        (f"{OFFER}::test_a_run_without_spark_is_refused_and_not_queued",),
    ),
)
