"""The documentation's commands as a reader types them: a page in an empty folder, beside an instance like a new one."""

from collections.abc import Callable

import pytest

from tests.support.documents.pages import Page, pages

pytestmark = [pytest.mark.slow]

PAGES = [page for page in pages() if page.is_run and page.instance == "plain"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_it_says(
    run_page: Callable[[Page], None], page: Page
) -> None:
    run_page(page)
