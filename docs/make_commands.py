"""Writes reference/commands.md from the commands themselves: `python docs/make_commands.py`."""

from __future__ import annotations

from pathlib import Path

import click

from deepband.interfaces.cli import main

PAGE = Path(__file__).parent / "reference" / "commands.md"


def page() -> str:
    """The help of every command, as the terminal shows it."""
    parts = ["# Commands\n", block("")]
    for name in sorted(main.commands):
        parts += [f"## deepband {name}\n", block(name)]
    return "\n".join(parts)


def block(name: str) -> str:
    return f"```text\n{help_of(name)}\n```\n"


def help_of(name: str) -> str:
    """What `deepband NAME --help` prints; no name is for all commands."""
    settings = {**main.context_settings, "terminal_width": 80}
    context = click.Context(main, info_name="deepband", **settings)
    command: click.Command = main
    if name:
        command = main.commands[name]
        context = click.Context(command, context, info_name=name, **settings)
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


if __name__ == "__main__":
    PAGE.write_text(page())
