"""The analyses that can be launched, by name."""

from spark_jobs.analysis import Analysis
from spark_jobs.jobs.disk_not_freed import DISK_NOT_FREED
from spark_jobs.jobs.find import FIND
from spark_jobs.jobs.topic_profile import TOPIC_PROFILE

ANALYSES: dict[str, Analysis] = {
    analysis.name: analysis for analysis in (FIND, DISK_NOT_FREED, TOPIC_PROFILE)
}
