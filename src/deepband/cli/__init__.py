"""The command line: one command a method of a study."""

from deepband.cli import paper, reading, running, showing
from deepband.cli.group import main

__all__ = ["main", "paper", "reading", "running", "showing"]
