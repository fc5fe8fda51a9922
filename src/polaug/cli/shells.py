"""Completion scripts of the shells from plain data: one function for each shell. What there is comes from outside."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slot:
    """One flag, or one positional argument (no flags)."""

    flags: tuple[str, ...]
    help: str
    metavar: str
    takes_value: bool
    values: tuple[str, ...] = ()
    """Names that fit; none if any text does."""
    path: str = ""
    """"file" or "folder" if it is one."""
    several: bool = False
    """Takes a list with commas."""
    many: bool = False
    """A positional argument that may be repeated."""


@dataclass(frozen=True)
class Command:
    """One command with everything it takes."""

    name: str
    help: str
    slots: tuple[Slot, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """All of them, long and short."""
        return tuple(flag for slot in self.slots for flag in slot.flags)


def bash(commands: Sequence[Command]) -> str:
    """For bash 4 and later; needs no other package."""
    cases: list[str] = []
    flags: list[str] = []
    arguments: list[str] = []
    for command in commands:
        flags.append(f"    {command.name}) flags={shlex.quote(' '.join(command.flags))} ;;")
        for slot in command.slots:
            if not slot.takes_value:
                continue
            where = [f"'{command.name} {flag}'" for flag in slot.flags]
            line = _bash_values(slot)
            (cases if where else arguments).append(f"    {'|'.join(where) or command.name}) {line} ;;")
    names = shlex.quote(" ".join(command.name for command in commands))
    return f"""# polaug completion for bash; made by `polaug completion bash`
_polaug() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="" word flags="" head=""
  COMPREPLY=()
  if [[ $cur == = ]]; then cur=""; elif [[ $prev == = ]]; then prev="${{COMP_WORDS[COMP_CWORD-2]}}"; fi
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [[ $word != -* ]]; then command=$word; break; fi
  done
  if [[ -z $command ]]; then
    COMPREPLY=($(compgen -W {names}' --help --version' -- "$cur")); return
  fi
  case "$command $prev" in
{_lines(cases)}
  esac
  if [[ $cur == -* ]]; then
    case "$command" in
{_lines(flags)}
    esac
    COMPREPLY=($(compgen -W "$flags" -- "$cur")); return
  fi
  case "$command" in
{_lines(arguments)}
  esac
}}
complete -F _polaug polaug
"""


def _bash_values(slot: Slot) -> str:
    if slot.path:
        option = "-d" if slot.path == "folder" else "-f"
        return f'compopt -o filenames; COMPREPLY=($(compgen {option} -- "$cur")); return'
    if not slot.values:
        return "return"
    words = shlex.quote(" ".join(slot.values))
    if slot.several:  # what stands before the last comma stays
        return (
            'if [[ $cur == *,* ]]; then head="${cur%,*},"; fi; compopt -o nospace; '
            f'COMPREPLY=($(compgen -P "$head" -W {words} -- "${{cur##*,}}")); return'
        )
    return f'COMPREPLY=($(compgen -W {words} -- "$cur")); return'


def zsh(commands: Sequence[Command]) -> str:
    """For zsh with its completion system (compinit) on."""
    names = " ".join(_quoted(f"{command.name}:{_plain(command.help)}") for command in commands)
    cases = []
    for command in commands:
        specs = " \\\n          ".join(_zsh_spec(slot) for slot in command.slots)
        cases.append(f"        {command.name})\n          _arguments -s \\\n          {specs} ;;")
    return f"""#compdef polaug
# polaug completion for zsh; made by `polaug completion zsh`
_polaug() {{
  local context state state_descr line
  typeset -A opt_args
  _arguments -C '(-h --help)'{{-h,--help}}'[help]' '--version[version]' '1: :->command' '*:: :->arguments'
  case $state in
    command)
      local -a commands=({names})
      _describe command commands ;;
    arguments)
      case $line[1] in
{_lines(cases)}
      esac ;;
  esac
}}
if [ "$funcstack[1]" = "_polaug" ]; then _polaug "$@"; else compdef _polaug polaug; fi
"""


def _zsh_spec(slot: Slot) -> str:
    value = ""
    if slot.takes_value:
        # Two pairs of quotes: the specification's own, and those of the list that it evaluates.
        words = " ".join(slot.values)
        action = {"file": "_files", "folder": "_files -/"}.get(slot.path, f"({words})" if words else "")
        if slot.several and words:
            action = f"_values -s , name {words}"
        value = f":{_plain(slot.metavar or 'value')}:{action}"
    if not slot.flags:
        return _quoted(f"{'*' if slot.many else '1'}{value}")
    help_text = _plain(slot.help)
    if len(slot.flags) == 1:
        return _quoted(f"{slot.flags[0]}[{help_text}]{value}")
    return f"'({' '.join(slot.flags)})'{{{','.join(slot.flags)}}}" + _quoted(f"[{help_text}]{value}")


def fish(commands: Sequence[Command]) -> str:
    """For fish 3 and later."""
    lines = ["# polaug completion for fish; made by `polaug completion fish`", "complete -c polaug -f"]
    top = "-n __fish_use_subcommand"
    lines += [f"complete -c polaug {top} -a {command.name} -d {_quoted(command.help)}" for command in commands]
    lines.append(f"complete -c polaug {top} -l version -d version")
    for command in commands:
        seen = f"-n {_quoted(f'__fish_seen_subcommand_from {command.name}')}"
        lines += [f"complete -c polaug {seen} {_fish_spec(slot)}" for slot in command.slots]
    return "\n".join(lines) + "\n"


def _fish_spec(slot: Slot) -> str:
    words = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in slot.flags]
    if slot.takes_value:
        names = " ".join(slot.values)
        if slot.path:
            words.append("-r -F" if slot.path == "file" or not slot.flags else "-x -a '(__fish_complete_directories)'")
        elif slot.several and names:
            words.append(f"-x -a {_quoted(f'(__fish_append , {names})')}")
        elif slot.flags or names:
            words.append(("-x " if slot.flags else "") + (f"-a {_quoted(names)}" if names else ""))
    return " ".join([*words, f"-d {_quoted(slot.help)}"])


def _plain(text: str) -> str:
    """Without the signs that zsh reads as its own."""
    return "".join("(" if sign == "[" else ")" if sign == "]" else sign for sign in text).replace(":", " ")


def _quoted(text: str) -> str:
    """In single quotes, which all three shells read alike if a quote inside becomes a typographic one."""
    return "'" + text.replace("'", "’").replace("\\", "") + "'"


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines)


SHELLS: dict[str, Callable[[Sequence[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
