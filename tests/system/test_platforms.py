"""Systems that are not POSIX: studies in memory work, and the rest says what it needs.

The interpreter here is made to look like one on Windows: what only POSIX has is taken away before
anything of deepband is imported.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from deepband.system.posix import NEEDED

WITHOUT_POSIX = """
    import os, shutil, signal, sys
    shutil._use_fd_functions = False  # as shutil itself does where they are missing
    for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "readline"):
        sys.modules[name] = None
    for name in ("fork", "forkpty", "setsid", "killpg", "getpgid", "setpgid", "getuid", "geteuid"):
        delattr(os, name)
    for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "statvfs", "fchmod"):
        delattr(os, name)
    for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGCHLD"):
        delattr(signal, name)
    import multiprocessing.context
    del multiprocessing.context.ForkServerContext, multiprocessing.context.ForkServerProcess
"""


def run_without_posix(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(WITHOUT_POSIX) + textwrap.dedent(code)
    lockless = "ignore:only soft file lock is available"  # filelock, which has another on Windows
    command = [sys.executable, "-W", lockless, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def test_a_study_in_memory_runs_without_posix(tmp_path: Path) -> None:
    done = run_without_posix(
        """
        import deepband

        def train(config, budget, context):
            (context.path / "weights").write_text(str(budget))
            assert context.previous is None or (context.previous / "weights").exists()
            return config["x"] / budget

        study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
        study.optimize(train)
        print(study.quote("preserving").title)
        study.deepen("preserving")
        study.optimize(train)
        print(study.done, study.runs[1].trained == study.runs[1].cost_resumed)
        """,
        tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout == "deepening 'preserving', max_budget 9 to 27\nTrue True\n"


USES = [
    "deepband.open_study('a.study', space={'x': (0.0, 1.0)}, max_budget=9)",
    "deepband.open_study(space={'x': (0.0, 1.0)}, max_budget=9).optimize(max, workers=2)",
    "deepband.open_study(space={'x': (0.0, 1.0)}, max_budget=9).optimize(max, timeout=9)",
    "deepband.open_study(space={'x': (0.0, 1.0)}, max_budget=9).optimize(max, executor='ray')",
    "from deepband.interfaces.dashboard.watchlist import Watchlist; Watchlist(deepband_file)",
]


@pytest.mark.parametrize(
    "uses",
    [pytest.param(USES, id="all"), *(pytest.param([use], marks=pytest.mark.heavy) for use in USES)],
)
def test_what_needs_posix_says_so_in_a_sentence(uses: list[str], tmp_path: Path) -> None:
    (tmp_path / "old.study").touch()
    done = run_without_posix(
        f"""
        import pathlib
        import deepband
        deepband_file = pathlib.Path("old.study")
        for use in {uses}:
            try:
                exec(use)
            except deepband.DeepbandError as error:
                print(error)
        """,
        tmp_path,
    )
    assert (done.stdout, done.stderr) == (f"{NEEDED}\n" * len(uses), "")
    assert NEEDED.count(".") == 1
    assert "Linux or macOS" in NEEDED
    assert [each.name for each in tmp_path.iterdir()] == ["old.study"]


def test_commands_say_so_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "space = {'x': (0, 1)}\ndef train(config, budget): return 1\n"
    )
    done = run_without_posix(
        """
        from deepband.interfaces.cli import main
        main(["run", "a.study", "train.py:train", "--max-budget", "9"])
        """,
        tmp_path,
    )
    assert done.returncode == 1
    assert done.stderr == f"Error: {NEEDED}\n"
