"""Messages in the words of a command line: the names of Python arguments become those of options.

Errors come from the same code as in Python and name its arguments, such as `max_cost` or
`unfinished=True`. A command knows which of its options belongs to which argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from deepband.errors import BudgetError, DeepbandError

START, END = r"(?<![\w./='\"-])", r"(?![\w./'\"-])"
"""What may not touch a name: it would be part of a path, a text or a longer name."""

SIZES = {"max_budget", "min_budget"}
"""With a number behind them, these describe a study, as in "max_budget 27"."""
PHRASES = {
    "`study.optimize`, `deepband run`, or ask and tell until `study.done`": "`deepband run`",
    "`study.optimize`": "`deepband run`",
    "`study.failures()`": "`deepband failures`",
    "`study.front()`": "`deepband front`",
    "`study.front(rung=...)`": "`deepband front --rung`",
    "`study.evaluations`": "`deepband export`",
}
"""What to do in Python, and with commands."""


def rename_arguments(error: DeepbandError, ctx: click.Context) -> None:
    """Let the message of an error name the options of the command that raised it."""
    if not error.args or not isinstance(error.args[0], str):
        return
    text, options = error.args[0], _options(ctx.command)
    for python, command in PHRASES.items():
        text = text.replace(python, command)
    if isinstance(error, BudgetError):
        option = _option_with(error, ctx.params, options)
        if option is not None:
            text = re.sub(rf"^{re.escape(error.name)}(?= is )", option, text)
    error.args = (in_options(text, options), *error.args[1:])


def in_words_of_command(text: str) -> str:
    """A text from Python, with the options of the command that is running."""
    return in_options(text, _options(click.get_current_context().command))


def in_options(text: str, options: Mapping[str, str]) -> str:
    """A message with options in place of arguments, given the option of each argument. A name that
    is also an English word, such as `to`, is replaced only where it is clearly a name."""
    for name, option in options.items():
        text = text.replace(f"`{name}`", f"`{option}`")
        text = re.sub(rf"{START}{name}=True{END}", option, text)
        text = re.sub(rf"{START}{name}=(?=[^\s=])", f"{option} ", text)
        text = re.sub(rf"^{name}(?= (is|has) )", option, text)
        if "_" in name:
            value = r"(?! \d)" if name in SIZES else ""
            text = re.sub(rf"{START}{name}{END}{value}", option, text)
        else:
            text = re.sub(rf"(?<=\bgive ){name}(?=[.,:;]|$| to create)", option, text)
    return text


def _options(command: click.Command) -> dict[str, str]:
    """The option for each argument of a command."""
    found = [each for each in command.params if isinstance(each, click.Option)]
    return {each.name: max(each.opts, key=len) for each in found if each.name}


def _option_with(
    error: BudgetError, given: Mapping[str, Any], options: Mapping[str, str]
) -> str | None:
    """The option that has the value which an error refuses: the one of the same name, or any other
    (`--to` is a max_budget or a width)."""
    names = sorted(given, key=lambda name: name != error.name)
    matching = (name for name in names if name in options and given[name] == error.given)
    return next((options[name] for name in matching), None)
