"""`polaug completion`: the scripts work in the shells themselves, and know every command, flag and name."""

import shutil
import subprocess

import pytest

from polaug import cli
from polaug.cli.completion import described_commands
from polaug.exploration import METHODS as EXPLORERS
from polaug.study import TASKS

ASK = {
    "bash": 'COMP_WORDS=({words}); COMP_CWORD=$(({count}-1)); _polaug 2>/dev/null; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "complete -C '{line}' | string split -f 1 \\t; true",
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        (folder / shell).write_text(cli.completion.script(shell, cli.parser()), encoding="utf-8")
    return folder


def has(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def answers(shell, scripts, *words):
    has(shell)
    quoted = " ".join(f"'{word}'" for word in words)
    ask = ASK[shell].format(words=quoted, count=len(words), line=" ".join(words))
    flags = ["--norc"] if shell == "bash" else ["--no-config"]
    command = [shell, *flags, "-c", f"source {scripts / shell}; {ask}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not result.stderr
    return set(result.stdout.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_accepts_its_script(shell, scripts):
    has(shell)
    subprocess.run([shell, "-n", str(scripts / shell)], check=True)


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_the_shell_offers_what_there_is(shell, scripts):
    def offered(*words):
        return answers(shell, scripts, "polaug", *words)

    assert {"train", "compare", "watch", "completion", "list"} <= offered("")
    assert offered("tr") == {"train"}
    assert set(TASKS) <= offered("train", "")
    assert "classic" in offered("compare", "cl")
    assert "classic" not in offered("train", "cl")
    assert set(EXPLORERS) | {"none"} == offered("train", "--explorer", "")
    assert offered("train", "--explorer-s") == {"--explorer-seed"}
    assert offered("compare", "--methods", "ppo,dqn+pa-") == {"ppo,dqn+pa-paper"}
    assert offered("completion", "z") == {"zsh"}
    assert not offered("train", "--steps", "")


def test_bash_knows_the_equals_sign(scripts):
    """Bash makes words of its own out of --flag=value."""
    assert answers("bash", scripts, "polaug", "train", "--explorer", "=", "com") == {"committee"}
    assert "committee" in answers("bash", scripts, "polaug", "train", "--explorer", "=")


def test_zsh_completes(scripts, tmp_path):
    """In a terminal of its own, since zsh completes nowhere else."""
    has("zsh")
    ask = f"""
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1=; autoload -Uz compinit; compinit -u -d {tmp_path}/dump; source {scripts / "zsh"}; echo REA''DY"
    zpty -r shell output "*READY*"
    zpty -w -n shell $'polaug train --explorer comm\\t\\C-a echo \\n'
    zpty -r shell output "*committee*"
    print -r -- "$output"
    zpty -d shell
    """
    result = subprocess.run(["zsh", "-f", "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    assert "committee" in result.stdout


def test_every_command_and_flag_is_in_every_script(scripts):
    for command in described_commands(cli.parser()):
        for shell in ("bash", "zsh", "fish"):
            text = (scripts / shell).read_text(encoding="utf-8")
            assert command.name in text
            for flag in command.flags:
                assert (f"-l {flag[2:]}" if shell == "fish" and flag.startswith("--") else flag[1:]) in text


def test_the_command_prints_it(capsys):
    assert cli.main(["completion", "bash"]) == 0
    assert capsys.readouterr().out.startswith("# polaug completion for bash")
    assert cli.main(["completion", "csh"]) == 2
