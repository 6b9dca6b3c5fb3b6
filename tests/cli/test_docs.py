"""docs/cli.md has every command and option."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from valuetracker.cli.main import COMMANDS, main

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
# Their options stand in the README, or are the same for all commands.
ELSEWHERE = ("serve", "token", "sillytavern", "docs")


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", found) for each, found in command.commands.items())


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_a_command_is_documented_with_its_options(name: str, command: click.Command) -> None:
    assert command.help
    if name.startswith("sillytavern "):
        name = name.removeprefix("sillytavern ")
    assert f"`{name}" in PAGE or f"{name}`" in PAGE, f"docs/cli.md does not have {name}"
    if name.split()[0] in ELSEWHERE or command.name in ("install", "status", "uninstall"):
        return
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {option.name} has no help"
            assert option.opts[-1] in PAGE, f"docs/cli.md does not have {option.opts[-1]}"
