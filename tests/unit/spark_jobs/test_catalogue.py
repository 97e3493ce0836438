"""The analyses of the catalogue: each has its job and the parameter that names its target."""

import inspect
import re
import subprocess
import sys

import pytest

from engine.base.errors import UnusableField
from gateway.jobs.services import check_parameters
from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.catalogue import ANALYSES
from tests.support.import_graph import ROOT


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=lambda analysis: analysis.name)
def test_each_analysis_has_its_job_and_its_target(analysis: Analysis) -> None:
    assert ANALYSES[analysis.name] is analysis
    assert list(inspect.signature(analysis.load()).parameters) == [
        *("spark", "parameters", "context", "progress", "output_dir"),
        *(["holders"] if analysis.asks_holders else []),
    ]
    properties = analysis.parameters["properties"]
    named = [kind for kind in AnalysisTarget if kind in properties]
    assert named == [kind for kind in analysis.targets if kind is not AnalysisTarget.CLUSTER]
    assert analysis.question.endswith("?")
    assert {name for read in analysis.also_reads for name in (read.topic, read.cluster)} <= {
        *("", *properties)
    }
    assert len({read.cluster for read in analysis.also_reads if read.cluster}) <= 1


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=lambda analysis: analysis.name)
def test_each_analysis_runs_with_a_topic_alone(analysis: Analysis) -> None:
    given = {"topic": "persistent://public/default/t"}
    required = analysis.parameters.get("required", [])
    if set(required) <= {"topic"}:
        checked = check_parameters(analysis=analysis.name, parameters=given)
        assert analysis.target_of(checked) == (AnalysisTarget.TOPIC, given["topic"])
    else:
        with pytest.raises(UnusableField, match=r"^parameters\.(?!topic)"):
            check_parameters(analysis=analysis.name, parameters=given)


def analysis_of(*targets: AnalysisTarget) -> Analysis:
    return Analysis("a", "A", "What?", targets, {"properties": {}}, "nowhere")


def test_the_catalogue_is_read_without_spark_and_arrow() -> None:
    code = "import sys, spark_jobs.catalogue; sys.exit(bool({'pyarrow', 'pyspark', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_analysis_of_the_cluster_has_no_target_among_its_parameters() -> None:
    whole = analysis_of(AnalysisTarget.TENANT, AnalysisTarget.CLUSTER)
    assert whole.target_of({"days": 3}) == (AnalysisTarget.CLUSTER, "")
    assert whole.target_of({"tenant": ""}) == (AnalysisTarget.CLUSTER, "")
    assert whole.target_of({"tenant": "public"}) == (AnalysisTarget.TENANT, "public")


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({}, "parameters.topic"),
        ({"topic": ""}, "parameters.topic"),
        ({"topic": "t", "namespace": "a/b"}, "parameters.namespace"),
    ],
)
def test_an_analysis_reads_one_target(parameters: dict[str, str], field: str) -> None:
    either = analysis_of(AnalysisTarget.TOPIC, AnalysisTarget.NAMESPACE)
    with pytest.raises(UnusableField) as refused:
        either.target_of(parameters)
    assert refused.value.field == field


def test_the_console_offers_analyses_by_their_titles() -> None:
    text = (ROOT / "frontend/src/shared/analyses/catalogue.ts").read_text()
    _, offered = text.split("export const OFFERED", 1)
    titles = dict(re.findall(r'"([a-z-]+)": "([^"]+)"', offered.split("};", 1)[0]))
    assert titles == {name: ANALYSES[name].title for name in titles}
    _, by_cause = text.split("const BY_CAUSE", 1)
    assert titles.keys() <= set(re.findall(r'"([a-z-]+)"', by_cause))
