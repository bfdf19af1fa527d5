"""The documents hang together: every page is in the site's navigation, and every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def nav(entry: Any) -> Iterator[str]:
    """Every page that the navigation names."""
    if isinstance(entry, str):
        yield entry
    for value in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from nav(value)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(nav(site["nav"])) == [page.name for page in PAGES], "docs/*.md and the nav of mkdocs.yml differ"


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "README.md", ROOT / "examples/toy_engine/README.md"], ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [t.split("#")[0] for t in LINK.findall(text) if not t.startswith(("http:", "https:", "#"))]
    assert [t for t in targets if not (page.parent / t).exists()] == []
