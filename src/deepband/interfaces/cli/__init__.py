"""The command line: one command per method of a study."""

from deepband.interfaces.cli import (
    best_command,
    compare,
    confirm_command,
    demo,
    extend_commands,
    failure_commands,
    front_commands,
    lease_commands,
    paper,
    plan_command,
    read_commands,
    run_commands,
    status_command,
    view_commands,
)
from deepband.interfaces.cli.group import main

__all__ = ["best_command", "compare", "confirm_command", "demo", "extend_commands"]
__all__ += ["failure_commands", "front_commands", "lease_commands", "main", "paper"]
__all__ += ["plan_command", "read_commands"]
__all__ += ["run_commands", "status_command", "view_commands"]
