"""The analyses of the catalogue: each has its job and the parameter that names its target."""

import inspect
import subprocess
import sys

import pytest

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.catalogue import ANALYSES


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=lambda analysis: analysis.id)
def test_each_analysis_has_its_job_and_its_target(analysis: Analysis) -> None:
    assert ANALYSES[analysis.id] is analysis
    assert list(inspect.signature(analysis.load()).parameters) == [
        *("spark", "parameters", "context", "progress", "output_dir"),
    ]
    if analysis.target is not AnalysisTarget.CLUSTER:
        assert analysis.target in analysis.parameters_schema["required"]


def test_the_catalogue_is_read_without_spark_and_arrow() -> None:
    code = "import sys, spark_jobs.catalogue; sys.exit(bool({'pyarrow', 'pyspark', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_analysis_of_the_cluster_has_no_target_among_its_parameters() -> None:
    whole = Analysis("a", "A", "", AnalysisTarget.CLUSTER, {"properties": {}}, "nowhere")
    assert whole.target_of({"days": 3}) == ""
    tenants = Analysis("b", "B", "", AnalysisTarget.TENANT, {"properties": {}}, "nowhere")
    assert tenants.target_of({"tenant": "public"}) == "public"
