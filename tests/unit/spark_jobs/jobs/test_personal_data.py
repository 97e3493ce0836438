"""Personal data is found with known answers, and no value leaves a task unmasked."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.personal_data.counting import COLUMNS, cells_of, fewer_samples
from spark_jobs.jobs.personal_data.detectors import PersonalKind, found, hinted, is_iban, masked
from spark_jobs.jobs.personal_data.job import result_of
from spark_jobs.pulsar_source.decoded import TopicSchemas
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.unit.spark_jobs.jobs.packed import HOSTILE, opened_of, single

TOPIC = "persistent://t/n/x"


def result(parts: Sequence[bytes]) -> Any:
    schemas = TopicSchemas(TOPIC)
    cells = fewer_samples(cells_of(opened, schemas) for opened in opened_of(parts, COLUMNS))
    return result_of(cells, {"topic": TOPIC}, [LedgerRange(1, 0, len(parts) - 1)])


def rows(given_result: Any) -> dict[tuple[str, str], list[Any]]:
    return {(row[0], row[1]): row for row in given_result["tables"][0]["rows"]}


PERSON = {
    "id": 17,
    "contact": {"mail": "jane.doe@example.org", "phones": ["+49 170 1234567"]},
    "card": "4111 1111 1111 1111",
    "account": "DE89 3704 0044 0532 0130 00",
    "address": "192.0.2.77",
    "ssn": "078-05-1120",
    "lastName": "Doebrandt",
    "color": "red",
    "amount": 4111111111111112,
}
SECRETS = [
    "jane.doe@example.org",
    "1234567",
    "4111 1111",
    "3704 0044",
    "192.0.2.77",
    "078-05",
    "Doebrandt",
]


def test_each_field_is_reported_with_its_kind_share_and_confidence() -> None:
    values = [json.dumps(PERSON), json.dumps(PERSON | {"contact": {"mail": "none"}})]
    given_result = result([single(text.encode(), key="bob@example.org") for text in values])
    table = rows(given_result)
    assert set(table) == {
        ("key", "email"),
        ("contact.mail", "email"),
        ("contact.phones[]", "phone"),
        ("card", "card"),
        ("account", "iban"),
        ("address", "ip"),
        ("ssn", "national id"),
        ("lastName", "name"),
    }
    assert table["contact.mail", "email"][2:5] == [50.0, 1, "almost certain"]
    assert table["card", "card"][2:5] == [100.0, 2, "almost certain"]
    assert table["lastName", "name"][4] == "by the field's name only"
    assert (
        "card holds payment card numbers in 100 % of its values: almost certain."
        in (given_result["conclusions"])
    )


def test_no_raw_value_is_in_the_result() -> None:
    by_person = json.dumps({"people": {"eve@example.org": PERSON}})
    properties = {"mallory@example.org": "x", "note": "call +49 170 7654321 soon"}
    given_result = result(
        [single(by_person.encode(), key="bob@example.org", properties=properties)]
    )
    text = json.dumps(given_result)
    for secret in [*SECRETS, "eve@", "mallory@", "bob@", "7654321"]:
        assert secret not in text
    assert ("people.{email}.card", "card") in rows(given_result)
    assert ("property {email}", "email") not in rows(given_result)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("mail a.b@example.co.uk now", PersonalKind.EMAIL),
        ("+1 (555) 010-9999", PersonalKind.PHONE),
        ("5500-0000-0000-0004", PersonalKind.CARD),
        ("GB82WEST12345698765432", PersonalKind.IBAN),
        ("078-05-1120", PersonalKind.NATIONAL_ID),
        ("12345678Z", PersonalKind.NATIONAL_ID),
        ("RSSMRA85T10A562S", PersonalKind.NATIONAL_ID),
        ("111.444.777-35", PersonalKind.NATIONAL_ID),
        ("AB 12 34 56 C", PersonalKind.NATIONAL_ID),
        ("2 55 08 14 168 025 38", PersonalKind.NATIONAL_ID),
        ("2001:db8::17", PersonalKind.IP),
    ],
)
def test_texts_of_each_kind_are_found(text: str, data: PersonalKind) -> None:
    assert [match.data for match in found(text)] == [data]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "12345",
            "1700000000000",
            "4111111111111112",
            "1111111111111111",
            "GB82WEST12345698765431",
        ),
        *("000-12-3456", "12345678A", "1.2.3", "999.1.1.1", "127.0.0.1", "a@b", "12:30:45"),
        *("2026-11-27T08:00:00Z", "550e8400-e29b-41d4-a716-446655440000", "+12", "111.444.777-36"),
    ],
)
def test_texts_that_only_resemble_personal_data_are_not(text: str) -> None:
    assert list(found(text)) == []


@given(st.text(max_size=200))
def test_any_text_is_examined_and_masked_to_at_most_three_letters(text: str) -> None:
    for match in found(text):
        assert match.text in text
    shown = masked(text)
    assert sum(c.isalnum() for c in shown) <= 3


def test_names_of_fields_are_hints() -> None:
    assert hinted("customer.firstName") is PersonalKind.NAME
    assert hinted("date_of_birth") is PersonalKind.BIRTH
    assert hinted("filename") is hinted("discard") is None
    assert is_iban("NL91 ABNA 0417 1643 00")


def test_a_topic_without_personal_data_says_so_and_hostile_entries_break_nothing() -> None:
    plain = result([single(b'{"id": 1}')])
    assert plain["conclusions"] == [
        "Nothing looks like personal data in 1 field, keys and properties of 1 message."
    ]
    hostile = result(HOSTILE)
    facts = {row["key"]: row["value"] for row in hostile["summary"]}
    assert (facts["unreadable"], facts["hidden"]) == (2, 5)
