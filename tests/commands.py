"""What the command line makes of words, without running anything."""

import typer

from polaug.cli import _as_polaug_error, app


def parsed(words):
    """The command that `words` name and its parameters, without running it; mistakes are raised."""
    try:
        group = typer.main.get_command(app)
        with group.make_context("polaug", list(words), allow_interspersed_args=False) as context:
            name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
            with command.make_context(f"polaug {name}", rest, parent=context) as inner:
                return name, dict(inner.params)
    except typer.TyperException as fault:
        raise _as_polaug_error(fault) from fault


def flags():
    """The flags of each command."""
    group = typer.main.get_command(app)
    return {
        name: {flag for parameter in each.params for flag in parameter.opts if flag.startswith("-")} | {"--help"}
        for name, each in group.commands.items()
    }
