"""The command line: one command a method of a study."""

from deepband.interfaces.cli import compare, paper, read_commands, run_commands, view_commands
from deepband.interfaces.cli.group import main

__all__ = ["compare", "main", "paper", "read_commands", "run_commands", "view_commands"]
