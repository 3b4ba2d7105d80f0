"""What a shell completes: click's commands, options and choices; and file names, where click has nothing.

In: the words that were typed. Out: click's completions, and scripts for bash, zsh and fish. Never: opens a project.

Once a script is loaded, the shell asks it for every word, so that a path or the COMMAND after `--` would not be
completed any more.
"""

from __future__ import annotations

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)


class _CompletesFiles(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Complete a word as a file name, unless it is an option or its command completes it."""
        items = super().get_completions(args, incomplete)
        return items if items or incomplete.startswith("-") else [CompletionItem(incomplete, type="file")]


class _Bash(_CompletesFiles, BashComplete):
    pass


class _Zsh(_CompletesFiles, ZshComplete):
    # A zsh without a configuration of its own has not loaded what the script is registered with.
    source_template = ZshComplete.source_template.replace(
        "#compdef %(prog_name)s\n",
        "#compdef %(prog_name)s\n\n(( $+functions[compdef] )) || { autoload -U compinit && compinit }\n",
    )


class _Fish(_CompletesFiles, FishComplete):
    # Click's script takes what follows the second comma for something else, and cuts a help text there.
    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def register_shells() -> None:
    """Have click use these classes from now on."""
    for shell_class in (_Bash, _Zsh, _Fish):
        add_completion_class(shell_class)
