"""docs/reproduction.md lists every statement of the paper; every test and page named there exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
STATEMENTS = [
    *(f"Definition 2.{i}" for i in range(1, 6)),
    "Definition 3.1", "Proposition 3.2", "Definition 3.4", "Theorem 3.5", "Lemma 3.6", "Proposition 3.7",
    "Proposition 3.8", "Theorem 3.9", "Theorem 3.10", "Corollary 3.11", "Corollary 3.12", "Definition 3.13",
    "Theorem 3.14", "Definition 3.15", "Theorem 3.16",
    "Proposition A.1", "Proposition A.2", "Example A.3", "Theorem A.4", "Proposition A.6", "Theorem A.9",
    "Proposition A.11", "Definition A.13", "Proposition A.14", "Theorem A.15", "Proposition A.16",
    "Definition A.17", "Proposition A.18", "Proposition A.19", "Theorem A.20",
    "Algorithm 1", "Algorithm 2", "Algorithm 3",
]  # fmt: skip
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_statement_is_listed_with_a_test() -> None:
    rows = [cells(line) for line in PAGE.splitlines() if line.startswith("| ")]
    for statement in STATEMENTS:
        found = [row for row in rows if re.search(rf"\b{re.escape(statement)}(?!\d)", row[0])]
        assert len(found) == 1, statement
        assert "tests/" in found[0][-1], statement


def test_every_row_of_the_audit_is_listed() -> None:
    numbered = [cells(line) for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row[0]) for row in numbered] == list(range(1, 18))
    assert all(row[-1] for row in numbered)


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_named_test_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_page_that_is_linked_exists() -> None:
    for page in ("reproduction.md", "examples.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#]+?)(?:#[\w-]+)?\)", text):
            assert link.startswith("http") or (ROOT / "docs" / link).exists(), (page, link)
