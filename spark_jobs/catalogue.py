"""The analyses that can be launched, by id."""

from spark_jobs.analysis import Analysis
from spark_jobs.jobs.topic_profile import TOPIC_PROFILE

ANALYSES: dict[str, Analysis] = {analysis.id: analysis for analysis in (TOPIC_PROFILE,)}
