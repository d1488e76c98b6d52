"""The project itself: its layers, its import, its texts."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import deepband
from deepband import facts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "deepband"
API = ROOT / "docs" / "reference" / "api.md"
GUARANTEES = ROOT / "docs" / "reference" / "guarantees.md"

LAYERS = [
    {"errors", "content", "tagged_json"},
    {
        "schedule",
        "facts",
        "texts",
        "distributions",
        "choices",
        "interrupts",
        "plain_files",
        "descendants",
        "threads",
    },
    {"records", "results", "strategies", "theory", "space"},
    {"runs", "platforms", "attempt_codec"},
    {"state"},
    {"hyperband", "adding", "samplers", "storage", "checkpoints", "outbox"},
    {"objective", "orphans", "costs"},
    {"quote", "explain", "report", "rows", "executors", "observers"},
    {"loop"},
    {"drawing", "export", "stability", "improving", "importance"},
    {"plots", "frames", "advice"},
    {"automatic"},
    {"running"},
    {"looking"},
    {"study"},
    {"opening", "forecast"},
    {"__init__"},
    {"demo", "benchmarks", "dashboard", "handout", "integrations"},
    {"cli"},
    {"__main__"},
]
"""A module imports from lower layers only, or from within its own folder."""

PURE = {
    "errors",
    "schedule",
    "facts",
    "records",
    "results",
    "strategies",
    "runs",
    "state",
    "hyperband",
}
PURE |= {"adding", "quote", "explain", "report", "rows", "theory", "export", "texts"}
PURE |= {"improving", "advice", "automatic", "costs"}
IMPURE = {"random", "secrets", "time", "datetime", "os", "pathlib", "sqlite3"}


def part_of(path: Path) -> str:
    """The module or folder below `deepband` that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The full names of what a file imports when it runs, wherever it does so."""
    names: set[str] = set()
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not is_for_types_only(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            module = node.module or ""
            whole = {f"{module}.{alias.name}" for alias in node.names}
            names |= whole if module == "deepband" else {module}
    return names


def is_for_types_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    level = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    here = part_of(path)
    for name in imports(path):
        package, _, rest = name.partition(".")
        if package == "deepband":
            there = rest.split(".")[0]
            there = there if there in level else "__init__"  # a public name
            assert there == here or level[there] < level[here], f"{here} imports {name}"


def test_every_module_has_a_layer() -> None:
    assert {part_of(path) for path in FILES} == {part for layer in LAYERS for part in layer}


def test_the_algorithm_is_pure() -> None:
    allowed = {"deepband", *sys.stdlib_module_names} - IMPURE
    for path in FILES:
        if part_of(path) in PURE:
            assert {name.split(".")[0] for name in imports(path)} <= allowed, path


def test_importing_loads_neither_configspace_nor_numpy() -> None:
    code = "import sys, deepband; print({'ConfigSpace', 'numpy', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def public_members(thing: object) -> list[tuple[str, object]]:
    """What a class of ours offers by itself, without what it inherits from elsewhere."""
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return []
    found = inspect.getmembers_static(thing, is_documentable)
    return [(name, member) for name, member in found if not name.startswith("_")]


def is_documentable(member: object) -> bool:
    for name in ("fget", "func", "__func__"):  # a property, a cached one, a class method
        member = getattr(member, name, member)
    return inspect.isfunction(member) and member.__module__.startswith("deepband")


@pytest.mark.parametrize("name", deepband.__all__)
def test_public_names_are_documented(name: str) -> None:
    thing = getattr(deepband, name)
    assert thing.__doc__
    assert re.search(rf":: deepband\.{name}(\(\))?\n", API.read_text())
    assert [member for member, value in public_members(thing) if not value.__doc__] == []


def test_integrations_are_documented() -> None:
    text = API.read_text()
    folder = SOURCE / "integrations"
    for path in [*folder.glob("[a-z]*.py"), *folder.glob("*/__init__.py")]:
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if name not in {"deepband.integrations", "deepband.integrations.following"}:
            for public in importlib.import_module(name).__all__:
                assert f":: {name}.{public}\n" in text


def test_facts_are_documented() -> None:
    text = API.read_text()
    notes = typing.get_args(facts.Note)
    for fact in set(typing.get_args(facts.Fact)) - set(notes):
        assert f":: deepband.facts.{fact.__name__}\n" in text


def test_the_prices_in_the_docs_are_those_of_quotes() -> None:
    rows = re.findall(
        r"^\| (\d) \| (\d+) to (\d+) \| (\d+) % \| (\d+) % \| (\d+) % \| (\d+) % \|$",
        (ROOT / "docs" / "explanation" / "deepening.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == 6
    for eta, low, high, *shares in (map(int, row) for row in rows):
        study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=low, eta=eta)
        study.optimize(lambda config, budget: config["x"] / budget)
        quote = study.quote("discarding", to=high)
        prices = [*quote.cost.of_fresh, *quote.cost_resumed.of_fresh]
        assert [round(100 * price) for price in prices] == shares


def test_the_tests_that_the_docs_name_exist() -> None:
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", GUARANTEES.read_text())
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), f"{file}::{test}"


def test_links_of_the_readme_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]:
        found = re.findall(r"\]\(([^)#]+)|src=\"([^\"]+)\"", page.read_text())
        links = [link for pair in found for link in pair if link]
        for link in links:
            assert link.startswith("https://") or (page.parent / link).exists(), link


def run_code_of(path: Path) -> None:
    """All Python blocks of a page, in order, as one program."""
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks, f"{path} has no code"
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(path), "exec"), namespace)


ELSEWHERE = {"clusters.md", "trackers.md", "recipes.md"}
"""Pages whose code `test_clusters.py`, `test_trackers.py` and `test_examples.py` run."""


def pages_with_code() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if "```python" in page.read_text() if page.name not in ELSEWHERE]


@pytest.mark.parametrize("path", pages_with_code(), ids=lambda path: path.name)
def test_the_code_in_the_texts_runs_twice(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time it goes on with the studies of the first."""
    monkeypatch.chdir(tmp_path)
    run_code_of(path)
    run_code_of(path)


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_the_texts_show_the_quote_that_their_code_prints(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_code_of(ROOT / name)
    printed = capsys.readouterr().out.splitlines()
    quote = [line for line in printed if line.startswith(("deepening", "  "))]
    assert len(quote) == 7
    assert "\n".join(f"    {line}" for line in quote) in (ROOT / name).read_text()


def test_the_page_on_advice_shows_what_its_code_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "how-to" / "advice.md"
    run_code_of(page)
    *advice, reached = capsys.readouterr().out.splitlines()
    assert "\n".join(f"    {line}" for line in advice) in page.read_text()
    assert f"# {reached}\n" in page.read_text()


def test_the_page_on_schedules_shows_the_losses_that_its_code_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "how-to" / "schedules.md"
    run_code_of(page)
    printed = capsys.readouterr().out.splitlines()
    losses = [line for line in printed if line.startswith("learning rate")]
    assert len(losses) == 5
    assert all(f"    {line}\n" in page.read_text() for line in losses)


def test_nothing_that_is_ignored_is_tracked() -> None:
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
