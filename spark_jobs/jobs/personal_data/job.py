"""Examination of values, keys and properties, and the result. It holds no value that is not masked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from spark_jobs.jobs.kit.cells import CELLS, Gathered, added, of_kind
from spark_jobs.jobs.kit.documents import CHUNKED, ENCRYPTED
from spark_jobs.jobs.kit.messages import planned_of
from spark_jobs.jobs.kit.progress import Progress
from spark_jobs.jobs.kit.reading import added_by_spark, cells_of_range
from spark_jobs.jobs.kit.results import counted, result, unread_figures, written
from spark_jobs.jobs.kit.selection import options_of
from spark_jobs.jobs.kit.tables import plural, short, table
from spark_jobs.jobs.personal_data import PERSONAL_DATA
from spark_jobs.jobs.personal_data.counting import (
    COLUMNS,
    SAMPLES_MAX,
    SEPARATOR,
    Cell,
    cells_of,
    fewer_samples,
)
from spark_jobs.jobs.personal_data.detectors import BY_NAME_ONLY, IN_WORDS, PersonalKind, hinted
from spark_jobs.pulsar_source.columns import Opened
from spark_jobs.pulsar_source.decoded import TopicSchemas
from spark_jobs.pulsar_source.partitions import LedgerRange

SENTENCES_MAX = 10
CHANCE_MAX = 0.3
"""Share of numbers that pass the check of cards although they are none: a tenth of all, and some for few values."""


class PersonalFinding(NamedTuple):
    """A field with personal data. ``values``: those examined. ``samples``: masked."""

    field: str
    data: PersonalKind
    values: int
    matches: int
    samples: list[str]

    @property
    def share(self) -> float:
        return self.matches / self.values

    @property
    def confidence(self) -> str:
        """Certainty of the finding, in words."""
        if self.data in BY_NAME_ONLY:
            return "by the field's name only"
        named = hinted(self.field) is self.data
        if self.data is PersonalKind.CARD and self.share < CHANCE_MAX and not named:
            return "may be chance: one in ten long numbers passes the check"
        if self.share >= 0.9 or (named and self.share >= 0.5):
            return "almost certain"
        return "likely" if self.share >= 0.3 else "in some values"


def run(
    spark: Any,
    parameters: Mapping[str, Any],
    context: Mapping[str, str],
    *,
    progress: Progress,
    output_dir: Path,
) -> dict[str, Any]:
    """Return the result; its Parquet files are left in ``output_dir``. Raises OptionError, and Spark's errors."""
    options = options_of(PERSONAL_DATA, parameters, context)
    planned = planned_of(options, progress)

    def read(ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
        schemas = TopicSchemas(ledger_range.topic)

        def examined(opened: Opened) -> pa.Table:
            return cells_of(opened, schemas)

        return cells_of_range(options, ledger_range, COLUMNS, examined, fewer_samples, schemas)

    cells = added_by_spark(spark, progress, planned, read, _fewer)
    return written(result_of(cells, parameters, planned), output_dir)


def _fewer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    gathered = Gathered(fewer_samples)
    for batch in batches:
        gathered.add(pa.Table.from_batches([batch]).cast(CELLS))
    yield from gathered.take().to_batches()


def findings_of(cells: pa.Table) -> list[PersonalFinding]:
    """Return the fields with personal data, those with most matches first."""
    values = _counts(cells, Cell.FIELD)
    samples: dict[str, list[str]] = {}
    for name in sorted(_counts(cells, Cell.SAMPLE)):
        field, _, sample = name.rpartition(SEPARATOR)
        samples.setdefault(field, []).append(sample)
    findings = []
    for name, matches in _counts(cells, Cell.MATCH).items():
        field, data = name.split(SEPARATOR)
        kept = samples.get(name, [])[:SAMPLES_MAX]
        findings.append(PersonalFinding(field, PersonalKind(data), values[field], matches, kept))
    return sorted(findings, key=lambda f: (-f.matches, f.field, f.data))


def _counts(cells: pa.Table, kind: str) -> dict[str, int]:
    rows = of_kind(cells, kind)
    return dict(zip(rows["name"].to_pylist(), rows["count"].to_pylist(), strict=True))


def result_of(
    cells: pa.Table, parameters: Mapping[str, Any], planned: Sequence[LedgerRange]
) -> dict[str, Any]:
    """Return the result of complete cells, but for samples."""
    cells = added([cells])
    messages, _ = counted(cells, Cell.MESSAGES)
    fields, problems = _counts(cells, Cell.FIELD), _counts(cells, Cell.PROBLEM)
    findings = findings_of(cells)
    hidden = problems.get(ENCRYPTED, 0) + problems.get(CHUNKED, 0)
    columns = [
        ("field", "Field", "string"),
        ("data", "Looks like", "string"),
        ("share", "Share of the field's values", "percent"),
        ("matches", "Values", "integer"),
        ("confidence", "Confidence", "string"),
        ("samples", "Masked samples", "string"),
    ]
    rows = [
        (f.field, str(f.data), 100 * f.share, f.matches, f.confidence, ", ".join(f.samples))
        for f in findings
    ]
    return result(
        PERSONAL_DATA,
        parameters,
        planned,
        messages=messages,
        size=counted(cells, Cell.ENTRIES)[1],
        conclusions=_conclusions(findings, len(fields), messages, hidden),
        figures=[
            ("messages", "Messages", messages, ""),
            ("fields", "Fields, keys and properties examined", len(fields), ""),
            ("fields_found", "With personal data", len({f.field for f in findings}), ""),
            ("hidden", "Entries not examined: encrypted or in chunks", hidden, ""),
            *unread_figures(cells, Cell.ENTRIES),
        ],
        series=[],
        tables=[table("personal_data", "Fields that look like personal data", columns, rows)],
    )


def _conclusions(
    findings: Sequence[PersonalFinding], fields: int, messages: int, hidden: int
) -> list[str]:
    texts = [
        f"{f.field} holds {IN_WORDS[f.data]} in {short(100 * f.share)} % of its values: {f.confidence}."
        for f in findings[:SENTENCES_MAX]
    ]
    if len(findings) > SENTENCES_MAX:
        texts.append(f"{len(findings) - SENTENCES_MAX} more in the table.")
    if not findings and fields:
        texts.append(
            f"Nothing looks like personal data in {plural(fields, 'field')}, keys and properties of"
            f" {plural(messages, 'message')}."
        )
    if hidden:
        texts.append(
            f"The values of {plural(hidden, 'entry', 'entries')} were not examined: encrypted, or parts of messages in"
            " chunks."
        )
    return texts
