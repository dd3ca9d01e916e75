"""Completion in a real bash; it needs neither JAX nor undrift while one types."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from undrift.command import completion

BASH = shutil.which("bash")
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
function=$(complete -p undrift | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function undrift "${@: -1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    file = tmp_path_factory.mktemp("completion") / "undrift.bash"
    file.write_text(completion.script("bash"))
    return file


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("undrift comp", {"compare", "completion"}),
        ("undrift run --per", {"--per-client"}),
        ("undrift run --method fedl", {"fedlin"}),
        ("undrift compare --method fedavg scaff", {"scaffold", "scaffnew"}),
        ("undrift explain fedt", {"fedtrack"}),
        ("undrift run --up top", {"top_k"}),
        ("undrift advise --by by", {"bytes"}),
        ("undrift data ver", {"verify"}),
        ("undrift reproduce --scale qu", {"quick"}),
        ("undrift completion z", {"zsh"}),
    ],
)
def test_bash_completes(script, typed, offered, tmp_path):
    words = [BASH, "--norc", "--noprofile", "-c", ASK, "bash", str(script), *typed.split()]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert set(done.stdout.split()) == offered, done.stderr


def test_files_of_ones_own_methods_are_offered(script, tmp_path):
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "mine.txt").write_text("")
    words = [BASH, "--norc", "--noprofile", "-c", ASK, "bash", str(script), "undrift", "run", "--method", "mi"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert set(done.stdout.split()) == {"mine.py", "mimelite"}, done.stderr


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_shell_gets_names_and_flags(cli, shell):
    code, out, _ = cli("completion", shell)
    assert code == 0
    for word in ("fedlin", "least_squares", "reproduce", "scale" if shell == "fish" else "--scale"):
        assert word in out


def test_it_does_not_wait_for_jax():
    program = (
        "import sys; from undrift.command import completion; completion.script('bash'); print('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_an_unknown_shell_is_refused(cli):
    code, _, err = cli("completion", "tcsh")
    assert code == 2
    assert "'bash', 'zsh', 'fish'" in err
