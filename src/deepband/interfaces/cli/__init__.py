"""The command line: one command per method of a study."""

from deepband.interfaces.cli import compare, demo, paper, read_commands, run_commands, view_commands
from deepband.interfaces.cli.group import main

__all__ = ["compare", "demo", "main", "paper", "read_commands", "run_commands", "view_commands"]
