"""``magnetar completion``: the script by which a shell completes commands and options."""

import click

REMEDIES = {
    "bash": 'eval "$(magnetar completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(magnetar completion zsh)"   in ~/.zshrc',
    "fish": "magnetar completion fish > ~/.config/fish/completions/magnetar.fish",
}


@click.command(
    name="completion",
    short_help="Print the completion script of a shell.",
    epilog="\b\nTo use it:\n" + "\n".join(f"  {text}" for text in REMEDIES.values()),
)
@click.argument("shell", type=click.Choice([*REMEDIES]))
def command(shell: str) -> None:
    """Print the script by which SHELL completes commands, options and values.

    Example: magnetar completion bash
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "magnetar", "_MAGNETAR_COMPLETE")
    click.echo(script.source_template % script.source_vars())
