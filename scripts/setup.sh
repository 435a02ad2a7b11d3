#!/usr/bin/env bash
# Makes .venv and checks what the sandbox needs. Running it again repairs what is missing.
#
#   PYTHON       the interpreter that makes .venv (default: python3)
#   TORCH_INDEX  a package index to take torch from (default: the one pip uses)
#
# Exit: 0 ready, 2 a tool is missing or too old, 6 the sandbox cannot work here, else pip's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
venv_python=.venv/bin/python
scratch=

say() { printf 'setup: %s\n' "$1"; }
fail() { printf 'setup: %s\n' "$2" >&2; exit "$1"; }

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

check_tools() {
    [[ $(uname -s) == Linux ]] || fail 6 "the sandbox needs Linux; use a Linux machine or a virtual one"
    local tool
    for tool in git make; do
        command -v "$tool" >/dev/null || fail 2 "$tool is missing; install it: sudo apt install $tool"
    done
    command -v "$python" >/dev/null || fail 2 "$python is missing; install it: sudo apt install python3 python3-venv (3.11 or newer)"
    recent "$python" || fail 2 "$python is older than 3.11; install a newer one and name it: make setup PYTHON=python3.12"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail 2 "$python cannot make virtual environments; install: sudo apt install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
}

# Debian's names of the system packages that are not there.
missing_packages() {
    command -v bwrap >/dev/null || echo bubblewrap
    "$python" -c 'import sys; from ctypes.util import find_library; sys.exit(find_library("seccomp") is None)' || echo libseccomp2
}

apt_install() {
    # A minimal PATH lacks the folders of the programs that dpkg calls.
    local run=(env DEBIAN_FRONTEND=noninteractive "PATH=$PATH:/usr/sbin:/sbin")
    ((EUID == 0)) || run=(sudo -n "${run[@]}")
    "${run[@]}" apt-get install -y -qq "$@" </dev/null >/dev/null 2>&1 && return
    "${run[@]}" apt-get update -qq </dev/null && "${run[@]}" apt-get install -y -qq "$@" </dev/null >/dev/null
}

check_system_packages() {
    local missing
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]})) || return 0
    command -v apt-get >/dev/null ||
        fail 6 "the sandbox needs bubblewrap and libseccomp; install them with this system's package manager"
    ((EUID == 0)) || sudo -n true 2>/dev/null ||
        fail 6 "the sandbox needs ${missing[*]}; run: sudo apt install bubblewrap libseccomp2"
    say "installing ${missing[*]}"
    apt_install "${missing[@]}" || fail 6 "apt could not install ${missing[*]}; run: sudo apt install bubblewrap libseccomp2"
    [[ -z $(missing_packages) ]] || fail 6 "${missing[*]} installed, but still not found; see: bwrap --version, ldconfig -p"
}

setting() { cat "/proc/sys/$1" 2>/dev/null || true; }

# The invoking user must be able to make the namespaces that a cage is made of.
check_namespaces() {
    local said
    said=$(bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --ro-bind / / --proc /proc --dev /dev true 2>&1) && return
    if [[ $(setting kernel/apparmor_restrict_unprivileged_userns) == 1 ]]; then
        fail 6 "AppArmor forbids user namespaces; allow them: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    elif [[ $(setting kernel/unprivileged_userns_clone) == 0 ]]; then
        fail 6 "user namespaces are off; allow them: sudo sysctl -w kernel.unprivileged_userns_clone=1"
    elif [[ $(setting user/max_user_namespaces) == 0 ]]; then
        fail 6 "user namespaces are off; allow them: sudo sysctl -w user.max_user_namespaces=10000"
    fi
    fail 6 "user namespaces are refused (${said%%$'\n'*}); in a container, run outside it or let it make them and mount /proc"
}

make_venv() {
    recent "$venv_python" && "$venv_python" -m pip --version >/dev/null 2>&1 && return
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

install() { "$venv_python" -m pip install --disable-pip-version-check --quiet "$@"; }

pin() { grep "^$1==" constraints.txt; }

# Prints what the installed torch asks of triton where our pin would not do: a build for CUDA names a release of its own.
torch_wants_triton() {
    "$venv_python" - "$(pin triton)" <<'PY'
import sys
from importlib.metadata import requires

from packaging.requirements import Requirement

for asked in map(Requirement, requires("torch") or []):
    applies = asked.marker is None or asked.marker.evaluate({"extra": ""})
    if asked.name == "triton" and applies and sys.argv[1].split("==")[1] not in asked.specifier:
        print(asked.specifier)
PY
}

install_packages() {
    local constraints=constraints.txt wanted
    say "installing Python packages; torch alone is 200 MB or more"
    install -c constraints.txt hatchling editables
    # torch comes first and alone, because only it may come from an index of its own; what it needs comes below.
    install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} --no-deps "$(pin torch)"
    wanted=$(torch_wants_triton)
    if [[ -n $wanted ]]; then
        scratch=$(mktemp)
        grep -v '^triton==' constraints.txt >"$scratch"
        constraints=$scratch
    fi
    install -c "$constraints" --no-build-isolation -e '.[kernels,profile,providers,dev]'
    if [[ -n $wanted ]]; then
        say "this torch names triton $wanted; $(pin triton) takes its place, as tested here (torch.compile may not work)"
        install --no-deps "$(pin triton)"
    fi
    "$venv_python" -m compileall -q sandboxes feedback  # a cage may not write its own; without them each start compiles anew
}

trap '[[ -z $scratch ]] || rm -f "$scratch"' EXIT
check_tools
check_system_packages
check_namespaces
make_venv
install_packages
say "ready"
