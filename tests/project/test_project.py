"""The project itself: its layers, its import, its texts."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import re
import subprocess
import sys
import textwrap
import typing
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import deepband
from deepband import FailedEvaluationsWarning
from deepband.core import facts
from leftovers import collect_silently

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "deepband"
API = ROOT / "docs" / "reference" / "api.md"
GUARANTEES = ROOT / "docs" / "reference" / "guarantees.md"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"

PACKAGES = ["errors", "core", "system", "space", "samplers", "storage", "analysis", "plots"]
PACKAGES += ["execution", "study", "integrations", "research", "interfaces", "__main__"]
"""What a package may import: itself and those before it. `deepband.NAME`, a public name, counts as
`study`."""
PURE = ["core", "analysis"]
IMPURE = {"random", "secrets", "time", "datetime", "os", "pathlib", "sqlite3"}
FILES = sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    """The package or module below `deepband` that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def is_for_types(node: ast.stmt) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`."""
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def imports(path: Path, for_types: bool = True) -> set[str]:
    """The full names of what a file imports, wherever it does so, and for types too."""
    names: set[str] = set()
    tree = ast.parse(path.read_text())
    if not for_types:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            module = node.module or ""
            whole = {f"{module}.{alias.name}" for alias in node.names}
            names |= whole if module == "deepband" else {module}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    here = package_of(path)
    if here == "__init__":
        return
    for name in imports(path):
        top, _, rest = name.partition(".")
        there = rest.split(".")[0]
        if top == "deepband":
            there = there if there in PACKAGES else "study"
            assert PACKAGES.index(there) <= PACKAGES.index(here), f"{here} imports {name}"


def test_every_package_has_its_place() -> None:
    assert {package_of(path) for path in FILES} == {*PACKAGES, "__init__"}


def test_module_names_are_nouns_and_tell_modules_apart() -> None:
    """Implementations of one interface share names, such as `base`; other modules do not."""
    names = Counter(path.stem for path in FILES if path.stem != "__init__")
    shared = {name for name, count in names.items() if count > 1}
    assert shared <= {"base"}, shared
    assert [name for name in names if name.endswith("ing")] == ["lightning"]  # a name, not a verb


def test_tests_do_not_import_each_other() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith("test_")], path


def test_decisions_are_pure() -> None:
    """Types may be named, such as that of a path: they run nothing."""
    for path in FILES:
        if package_of(path) in PURE:
            used = {name.split(".")[0] for name in imports(path, for_types=False)}
            assert not used & IMPURE, path


def modules_loaded_by(module: str) -> list[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_loads_only_what_every_study_needs() -> None:
    loaded = modules_loaded_by("deepband")
    ours = [name for name in loaded if name.split(".")[0] == "deepband"]
    assert not {"ConfigSpace", "numpy", "scipy", "sqlite3"} & set(loaded)
    later = ("plots", "analysis", "execution", "interfaces", "integrations", "research")
    assert not [
        name for name in ours if name.startswith(tuple(f"deepband.{each}" for each in later))
    ]
    assert len(ours) < 40


def test_a_command_starts_without_libraries_that_few_commands_need() -> None:
    """SciPy alone took 1.5 s, four times as long as all the rest."""
    large = {"ConfigSpace", "matplotlib", "moocore", "numpy", "optuna", "scipy", "sklearn"}
    assert not large & set(modules_loaded_by("deepband.interfaces.cli"))


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
        if path.stem not in {"__init__", "tracker", "training_result"} or path.parent != folder:
            for public in importlib.import_module(name).__all__:
                assert f":: {name}.{public}\n" in text


def test_facts_are_documented() -> None:
    text = API.read_text()
    notes = typing.get_args(facts.Note)
    for fact in set(typing.get_args(facts.Fact)) - set(notes):
        assert f":: deepband.core.facts.{fact.__name__}\n" in text


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


def test_the_plan_in_the_tutorial_is_that_of_its_study() -> None:
    plan = str(deepband.plan(max_budget=9).run)
    assert textwrap.indent(plan, "    ") in (ROOT / "docs" / "tutorial.md").read_text()


def test_the_tests_that_the_docs_name_exist() -> None:
    pages = GUARANTEES.read_text() + GUARANTEES.with_name("stability.md").read_text()
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", pages)
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}(" in next((ROOT / "tests").rglob(file)).read_text(), f"{file}::{test}"


def test_the_modules_that_the_architecture_names_exist() -> None:
    """With their folder, or by name alone where the folder has just been named."""
    named = set(re.findall(r"`([\w/]+\.py)`", ARCHITECTURE.read_text()))
    assert len(named) > 80
    modules = {str(path.relative_to(SOURCE)) for path in FILES} | {path.name for path in FILES}
    assert [name for name in named if name not in modules and not (ROOT / name).exists()] == []


def test_what_the_architecture_names_is_in_the_module_that_it_names() -> None:
    text = " ".join(ARCHITECTURE.read_text().split())
    named = re.findall(r"`(?:\w+\.)?(\w+)` \(`([\w/]+/\w+\.py)`", text)
    assert len(named) > 30
    for name, module in named:
        defined = rf"^ *(?:def|class) {name}\b"
        assert re.search(defined, (SOURCE / module).read_text(), re.MULTILINE), (name, module)


def test_links_of_the_readme_lead_somewhere() -> None:
    for name in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"]:
        page = ROOT / name
        found = re.findall(r"\]\(([^)#]+)|src=\"([^\"]+)\"", page.read_text())
        links = [link for pair in found for link in pair if link]
        for link in links:
            assert link.startswith("https://") or (page.parent / link).exists(), link


def make_targets_in(path: Path) -> set[str]:
    """The targets that a file calls; in Markdown only in code, because prose uses the word, too."""
    start = r"(?:`|^ {4})" if path.suffix == ".md" else r"(?:`|^\s*(?:- run: |entry: )?)"
    call = rf"{start}make (?:[A-Z]+=\S+ )*([a-z][a-z-]*)"
    return set(re.findall(call, path.read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        ".github/pull_request_template.md",
        ".github/workflows/tests.yml",
        ".pre-commit-config.yaml",
        ".ci/run",
    ],
)
def test_the_make_targets_that_are_named_exist_and_are_described(name: str) -> None:
    command = ["make", "-C", str(ROOT), "--no-print-directory"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    described = set(re.findall(r"^make (\S+) +\S", printed, re.MULTILINE))
    assert {"help", "demo", "test", "check"} <= described
    named = make_targets_in(ROOT / name)
    assert named
    assert named <= described


def test_the_paths_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"[`= ]((?:src|tests|docs|examples|bench|tools|\.ci)/[\w./-]*)", text)
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


WARNINGS: dict[str, type[Warning]] = {"failures.md": FailedEvaluationsWarning}
"""Pages whose code shows a warning."""


def run_code_of(path: Path) -> None:
    """All Python blocks of a page, in order, as one program."""
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks, f"{path} has no code"
    namespace: dict[str, object] = {"__name__": "__main__"}
    with pytest.warns(WARNINGS[path.name]) if path.name in WARNINGS else contextlib.nullcontext():
        for block in blocks:
            exec(compile(block, str(path), "exec"), namespace)
    namespace.clear()
    collect_silently()


ELSEWHERE = {"clusters.md", "slurm.md", "trackers.md", "recipes.md", "gpus.md", "batches.md"}
"""Pages whose code `test_clusters.py`, `test_slurm.py`, `test_trackers.py` and `test_examples.py`
run."""


def pages_with_code() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if "```python" in page.read_text() if page.name not in ELSEWHERE]


class FirstRun(NamedTuple):
    """A page whose code has run once: the folder where, and what it printed."""

    folder: Path
    printed: str


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], FirstRun]:
    """Runs the code of a page, once for all tests."""

    @cache
    def run(page: Path) -> FirstRun:
        folder, output = tmp_path_factory.mktemp("page"), io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(output):
            run_code_of(page)
        return FirstRun(folder, output.getvalue())

    return run


LONG = {
    "compare.md": "the same study as in README.md",
    "optuna.md": "twenty trials of Optuna in a database",
    "samplers.md": "as test_model_based.py",
    "schedules.md": "as test_study_plan.py",
    "sklearn.md": "as test_sklearn.py",
}
"""Pages whose code takes seconds, and what it does: heavy, because light tests do the same."""


def page_params() -> list[Any]:
    return [
        pytest.param(page, id=page.name, marks=pytest.mark.heavy if page.name in LONG else ())
        for page in pages_with_code()
    ]


SHOWN = ["README.md", "tutorial.md", "extend.md", "confirm.md", "small-spaces.md"]
SHOWN += ["objectives.md", "queues.md", "ranking.md", "scale.md"]
"""Pages that show all that their code prints."""


@pytest.mark.parametrize("path", page_params())
def test_the_code_in_the_texts_runs_and_prints_what_they_show(
    path: Path, first_run: Callable[[Path], FirstRun]
) -> None:
    """One test, so that no page is run by two test processes."""
    ran = first_run(path)
    assert ran.folder.exists()
    if path.name in SHOWN:
        shown = re.findall(r"^```text\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        assert shown
        assert ran.printed == "".join(shown)


def test_the_pages_that_show_what_they_print_exist() -> None:
    assert {*SHOWN, *LONG} <= {path.name for path in pages_with_code()}


@pytest.mark.heavy
@pytest.mark.parametrize("path", pages_with_code(), ids=lambda path: path.name)
def test_the_code_in_the_texts_runs_twice(
    path: Path, first_run: Callable[[Path], FirstRun]
) -> None:
    """The second time it goes on with the studies of the first."""
    with contextlib.chdir(first_run(path).folder):
        run_code_of(path)


def test_the_readme_fits_a_terminal() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert [line for line in lines if len(line) > 100] == []


def test_the_page_on_advice_shows_what_its_code_prints(
    first_run: Callable[[Path], FirstRun],
) -> None:
    page = ROOT / "docs" / "how-to" / "advice.md"
    *advice, reached = first_run(page).printed.splitlines()
    assert "\n".join(f"    {line}" for line in advice) in page.read_text()
    assert f"# {reached}\n" in page.read_text()


def test_the_page_on_schedules_shows_the_losses_that_its_code_prints(
    first_run: Callable[[Path], FirstRun],
) -> None:
    page = ROOT / "docs" / "how-to" / "schedules.md"
    printed = first_run(page).printed.splitlines()
    losses = [line for line in printed if line.startswith("learning rate")]
    assert len(losses) == 5
    assert all(f"    {line}\n" in page.read_text() for line in losses)


def test_the_page_on_failures_shows_what_its_code_prints(
    first_run: Callable[[Path], FirstRun],
) -> None:
    page = ROOT / "docs" / "how-to" / "failures.md"
    printed = first_run(page).printed.partition("Traceback (most recent call last):")[0]
    assert printed
    shown = "".join(f"    {line}".rstrip() + "\n" for line in printed.splitlines())
    assert shown.rstrip() in page.read_text()
    summary = printed.splitlines()[2].removesuffix(" (numbers vary)")
    assert f"of 22 evaluations failed: {summary}\n" in page.read_text()


def test_nothing_that_is_ignored_is_tracked() -> None:
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
