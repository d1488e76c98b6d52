"""The command line: one command per method of a study."""

from deepband.interfaces.cli import (
    compare,
    confirm_command,
    demo,
    extend_commands,
    failure_commands,
    paper,
    plan_command,
    read_commands,
    run_commands,
    view_commands,
)
from deepband.interfaces.cli.group import main

__all__ = ["compare", "confirm_command", "demo", "extend_commands", "failure_commands", "main"]
__all__ += ["paper", "plan_command", "read_commands", "run_commands", "view_commands"]
