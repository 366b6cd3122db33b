# shellcheck shell=bash
# What the scripts share: where the project is, how to say something, how to install what is missing. To be sourced.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cores="$(nproc 2>/dev/null || echo 2)"

# Compiled objects are shared between build folders and checkouts: paths are taken relative to the project.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}"
export CCACHE_NOHASHDIR=1

# shellcheck disable=SC2034  # the scripts use them
build_packages=(
    g++ cmake ninja-build ccache pkg-config
    libdnnl-dev libhwy-dev libfmt-dev zlib1g-dev nlohmann-json3-dev libcli11-dev libstb-dev libdlpack-dev libnifti2-dev
)
# shellcheck disable=SC2034
test_packages=(mold libgtest-dev libbenchmark-dev pocl-opencl-icd)
# shellcheck disable=SC2034
clang_packages=(clang libomp-dev)

say() { printf '\n== %s\n' "$*"; }

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# run COMMAND...: shows the command, then runs it.
run() {
    printf '+ %s\n' "$*"
    "$@"
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# install_missing PACKAGE...: says nothing when all of them are there.
install_missing() {
    command -v dpkg-query >/dev/null || {
        say "No Debian package manager here: these must be installed already: $*"
        return
    }
    local missing=() package
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    say "Installing ${missing[*]}"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "not root and no sudo here; please install: ${missing[*]}"
        as_root=(sudo)
    fi
    # The lists may be old: fetch new ones only when the packages are not found at once.
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null 2>&1 && return
    run "${as_root[@]}" apt-get -qq update
    run "${as_root[@]}" apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
}

# build_preset PRESET [TARGET...]: configures and builds into build/PRESET.
build_preset() {
    local preset="$1"
    shift
    say "Building $preset"
    (cd "$root" && run cmake --preset "$preset" -DCALOR_PRECOMPILE=ON >/dev/null)
    local quiet=()
    [ -t 1 ] || quiet=(--quiet)  # a terminal gets ninja's one line of progress, a log only what goes wrong
    run ninja -C "$root/build/$preset" -j "$cores" "${quiet[@]}" "$@"
}
