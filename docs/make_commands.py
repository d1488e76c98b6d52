"""Writes docs/commands.md from the commands themselves: `python docs/make_commands.py`."""

from __future__ import annotations

from pathlib import Path

import click

from deepband.cli import main

PAGE = Path(__file__).with_name("commands.md")


def page() -> str:
    """The help of every command, as the terminal shows it."""
    parts = ["# Commands\n"]
    context = click.Context(main, info_name="deepband", terminal_width=80)
    parts.append(block(main, context))
    for name, command in sorted(main.commands.items()):
        parts.append(f"## deepband {name}\n")
        parts.append(
            block(command, click.Context(command, context, info_name=name, terminal_width=80))
        )
    return "\n".join(parts)


def block(command: click.Command, context: click.Context) -> str:
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    return "```text\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page())
