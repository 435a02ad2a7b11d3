"""What a shell command does besides reading, as far as its words tell; what they do not tell is an effect too: ``opaque``.

Advice for a policy, not a wall: the cage holds whatever the command does. A rule that must not be talked round names ``opaque`` as well.
"""

import re
import shlex
from typing import Literal, get_args

Effect = Literal["network", "installs", "deletes", "writes", "processes", "privileges", "history", "opaque"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
_PROGRAMS: dict[Effect, frozenset[str]] = {
    "network": frozenset("curl wget nc ncat socat ssh scp sftp rsync ftp telnet ping dig host nslookup".split()),
    "installs": frozenset("pip pip3 pipx uv poetry conda mamba apt apt-get dnf yum apk brew npm yarn pnpm cargo gem".split()),
    "deletes": frozenset("rm rmdir unlink shred truncate".split()),
    "writes": frozenset("tee cp mv install ln touch mkdir dd patch".split()),
    "processes": frozenset("kill pkill killall nohup setsid disown at batch crontab systemctl service".split()),
    "privileges": frozenset("sudo su doas chmod chown chgrp setcap mount umount unshare nsenter chroot capsh".split()),
    "opaque": frozenset(
        "sh bash dash zsh ksh fish busybox eval exec source . python python3 perl ruby node php lua awk gawk make ninja".split()
    ),
}
_WRAPPERS = frozenset(
    "env nice ionice time timeout stdbuf command builtin xargs parallel find watch flock strace ltrace taskset numactl".split()
)
"""Programs that start another one, which stands among their arguments."""
_NETWORKED_GIT = frozenset("clone fetch pull push ls-remote submodule remote".split())
_SEPARATORS = frozenset(
    {";", "&", "&&", "|", "||", "|&", "\n", "(", ")", "{", "}", "!", "then", "do", "else", "if", "while", "until", "done", "fi"}
)
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*\+?=")
_EXPANDS = re.compile(r"[$`]|<\(|>\(")


def effects(command: str) -> tuple[Effect, ...]:
    """The effects of a command line, in a fixed order. A command that cannot be read is ``opaque``."""
    try:
        lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # a quotation that does not end
        return ("opaque",)
    found: set[Effect] = {"opaque"} if _EXPANDS.search(command) else set()
    starts = True
    for number, word in enumerate(words):
        if word in _SEPARATORS or set(word) <= set(";&|()"):
            starts = True
            continue
        if set(word) <= set("<>&|"):
            found |= {"writes"} if ">" in word and words[number + 1 : number + 2] != ["/dev/null"] else set()
        elif starts and not _ASSIGNMENT.match(word):
            found |= _of_program(word, words[number + 1 :])
            starts = False
    return tuple(effect for effect in EFFECTS if effect in found)


def _of_program(program: str, rest: list[str]) -> set[Effect]:
    name = program.rsplit("/", 1)[-1]
    found: set[Effect] = {"opaque"} if "/" in program and not program.startswith("/") else set()  # a program of the workspace's own
    found |= {effect for effect, names in _PROGRAMS.items() if name in names or name.rstrip("0123456789.") in names}
    own = rest[: next((n for n, word in enumerate(rest) if word in _SEPARATORS), len(rest))]
    if name == "git":
        found |= {"network"} if _NETWORKED_GIT & set(own) else set()
        found |= {"history"} if {"reset", "rebase", "filter-branch", "gc", "reflog", "update-ref", "config"} & set(own) else set()
    if name in _WRAPPERS:  # whichever of the words is the program that it starts
        found |= {effect for word in own if word != "." for effect in _of_program(word.rsplit("/", 1)[-1], [])}
        found |= {"deletes"} if "-delete" in own else set()
    if name == "sed" and any(word.startswith(("-i", "--in-place")) for word in own):
        found.add("writes")
    return found
