"""Outcomes expected by ``tests/interop/schemas``, observed by the official clients of the real Apache Pulsar."""

import pytest

from tests.interop.schemas.programs import OUTCOMES, Programs, UnavailableError, prepare
from tests.oracle.conftest import Side

RUN = "programs-"


@pytest.mark.timeout(400)
def test_the_programs_see_of_apache_what_they_are_expected_to(
    sides: tuple[Side, Side], tmp_path_factory: pytest.TempPathFactory
) -> None:
    apache = sides[0]
    prepare(lambda *call: apache.call(*call)[0], RUN)
    programs = Programs(apache.url, RUN, tmp_path_factory.mktemp("programs"))
    seen: dict[str, dict[str, object]] = {}
    try:
        for language in OUTCOMES:
            assert programs[language].seen("write_for_others") == "written"
        for language, cases in OUTCOMES.items():
            seen[language] = {case: programs[language].seen(case) for case in cases}
    except UnavailableError as error:
        pytest.skip(str(error))
    finally:
        programs.close()
    assert seen == OUTCOMES
