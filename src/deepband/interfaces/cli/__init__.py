"""The command line: one command per method of a study."""

from deepband.interfaces.cli import (
    compare,
    demo,
    extend_commands,
    paper,
    plan_command,
    read_commands,
    run_commands,
    view_commands,
)
from deepband.interfaces.cli.group import main

__all__ = ["compare", "demo", "extend_commands", "main", "paper", "plan_command"]
__all__ += ["read_commands", "run_commands", "view_commands"]
