"""
`valuetracker completion …`: lets a shell complete commands and options.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

PROGRAM = "valuetracker"
VARIABLE = "_VALUETRACKER_COMPLETE"

POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($word, $line, $position)
    $env:COMP_WORDS = $line.ToString()
    $env:COMP_CWORD = $word
    $env:%(complete_var)s = "powershell_complete"
    try {
        %(prog_name)s | ForEach-Object {
            $kind, $value, $help = $_ -split "`t", 3
            if (-not $help) { $help = $value }
            [System.Management.Automation.CompletionResult]::new(
                $value, $value, "ParameterValue", $help)
        }
    } finally {
        Remove-Item Env:COMP_WORDS, Env:COMP_CWORD, Env:%(complete_var)s
    }
}
"""


class PowerShellComplete(ShellComplete):
    """Completion for PowerShell, which click does not know."""

    name = "powershell"
    source_template = POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the whole words before the one to complete, and that one."""
        words = split_arg_string(os.environ.get("COMP_WORDS", ""))[1:]
        incomplete = os.environ.get("COMP_CWORD", "")
        return (words[:-1] if incomplete and words else words), incomplete

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type}\t{item.value}\t{item.help or ''}"


SHELLS = ("bash", "zsh", "fish", "powershell")


def add_shells() -> None:
    """Make click know the shells that it does not know by itself."""
    add_completion_class(PowerShellComplete)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """
    Print a script that lets a SHELL complete commands and options.

    \b
    bash:        eval "$(valuetracker completion bash)"
    zsh:         eval "$(valuetracker completion zsh)"
    fish:        valuetracker completion fish | source
    powershell:  valuetracker completion powershell | Out-String | Invoke-Expression
    """
    add_shells()
    found = get_completion_class(shell)
    assert found is not None
    # Not `source()`: that of bash runs bash to learn its version.
    script = found(ctx.find_root().command, {}, PROGRAM, VARIABLE)
    click.echo(script.source_template % script.source_vars())
