"""The analyses that can be launched, by name."""

from spark_jobs.analysis import Analysis
from spark_jobs.jobs.dead_letters import DEAD_LETTERS
from spark_jobs.jobs.disk_not_freed import DISK_NOT_FREED
from spark_jobs.jobs.export import EXPORT
from spark_jobs.jobs.field_drift import FIELD_DRIFT
from spark_jobs.jobs.find import FIND
from spark_jobs.jobs.hot_keys import HOT_KEYS
from spark_jobs.jobs.lost_doubled_reordered import LOST_DOUBLED_REORDERED
from spark_jobs.jobs.personal_data import PERSONAL_DATA
from spark_jobs.jobs.replication_audit import REPLICATION_AUDIT
from spark_jobs.jobs.sql import SQL
from spark_jobs.jobs.topic_profile import TOPIC_PROFILE
from spark_jobs.jobs.usage import USAGE
from spark_jobs.jobs.what_if import WHAT_IF
from spark_jobs.jobs.who_is_behind import WHO_IS_BEHIND

ANALYSES: dict[str, Analysis] = {
    analysis.name: analysis
    for analysis in (
        FIND,
        WHO_IS_BEHIND,
        DEAD_LETTERS,
        DISK_NOT_FREED,
        TOPIC_PROFILE,
        HOT_KEYS,
        PERSONAL_DATA,
        FIELD_DRIFT,
        LOST_DOUBLED_REORDERED,
        REPLICATION_AUDIT,
        USAGE,
        WHAT_IF,
        EXPORT,
        SQL,
    )
}
