"""`traceforge completion`: the scripts that complete commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from traceforge.cli.main import COMPLETION_VARIABLE, cli
from traceforge.cli.output import write_stdout
from traceforge.cli.shell_completion import register_shells


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    SHELL is bash, zsh or fish. Load the script in every new shell:

    \b
      bash   echo 'eval "$(traceforge completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(traceforge completion zsh)"' >> ~/.zshrc
      fish   traceforge completion fish | source      (in config.fish)
    """
    register_shells()
    shell_class = get_completion_class(shell)
    assert shell_class is not None, shell
    script = shell_class(cli, {}, "traceforge", COMPLETION_VARIABLE).source()
    write_stdout(script.encode())
