#!/bin/sh
# Tests of `x` on machines made of stubs, each without some tool or right. They install nothing and
# build nothing. All paths contain spaces, and the language is German.
#
# run.sh [SHELL...]: the shells to run `x` with; by default dash and bash, if they are installed.
# shellcheck disable=SC2016 # `x` puts names in backticks, and variables in stubs are the stubs'
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
source=$PWD
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
trap 'exit 130' INT TERM HUP
work="$top/a b  c"
clone="$work/clone of weir"
mkdir -p "$clone/bench" "$clone/fuzz" "$clone/python/tests" "$clone/tests/java" "$clone/tests/x"
for file in x python/test.sh python/requirements-test.txt tests/java/run.sh fuzz/run.sh; do
    cp "$source/$file" "$clone/$file"
done
echo 'echo "the checks of x" ' >"$clone/tests/x/run.sh"
printf '[[bin]]\nname = "wire"\npath = "wire.rs"\n' >"$clone/fuzz/Cargo.toml"

. tests/x/machine.sh

# ---------------------------------------------------------------- running and checking

shell=
case_name=
failures=0

# check NAME: begins a check, on a new machine.
check() {
    case_name=$1
    new_machine
}

# x [VARIABLE=VALUE...] SHELL PATH ARGS...: runs `x` on the machine, in an environment of its own.
x() {
    status=0
    (cd "$work" && env -i PATH="$bin" HOME="$machine/home of u" TMPDIR="$machine/tmp of u" \
        LANG=de_DE.UTF-8 MACHINE="$machine" "$@" </dev/null) >"$machine/out" 2>"$machine/err" ||
        status=$?
}

# run ARGS...: runs `x` with no further variables.
run() { x "$shell" "$clone/x" "$@"; }

# cache CLONE: where `x` of the clone puts its builds.
cache() {
    sum=$(cd "$1" && pwd -P | cksum)
    echo "$machine/home of u/.cache/weir/target-${sum%% *}"
}

fail() {
    failures=$((failures + 1))
    printf '\n*** %s: %s: %s\n' "$shell" "$case_name" "$*"
    sed 's/^/    out: /' "$machine/out"
    sed 's/^/    err: /' "$machine/err"
    sed 's/^/    log: /' "$log"
}

ends_with() { [ "$status" = "$1" ] || fail "exit code $status, not $1"; }
prints() { grep -qF -- "$1" "$machine/out" || fail "does not print: $1"; }
prints_last() { [ "$(tail -n 1 "$machine/out")" = "$1" ] || fail "its last line is not: $1"; }
calls() { grep -qF -- "$1" "$log" || fail "does not call: $1"; }
never_calls() { ! grep -qF -- "$1" "$log" || fail "calls: $1"; }

# dies_with TEXT...: exit code 1, and one line on standard error that contains each text.
dies_with() {
    ends_with 1
    [ "$(grep -c . "$machine/err")" = 1 ] || fail "says more or less than one line"
    for text in "$@"; do
        grep -qF -- "$text" "$machine/err" || fail "does not say: $text"
    done
}

# ---------------------------------------------------------------- arguments

check_words() {
    check "help needs nothing"
    run help
    ends_with 0
    prints "./x demo"
    prints "Builds go to $(cache "$clone")"

    check "an unknown sub-command is named, below those that there are"
    run tset
    ends_with 2
    grep -qF './x test' "$machine/err" || fail "no usage"
    grep -qF 'no sub-command `tset`' "$machine/err" || fail "no name"

    check "an unknown benchmark is an error before anything is installed"
    run bench enigne
    dies_with 'no benchmark `enigne`' "engine recovery"
    never_calls rustc

    check "so is an unknown campaign, or none"
    run campaign simm
    dies_with 'no campaign `simm`' "crash-points sim"
    run campaign
    dies_with "there are: engine-oracle"
    never_calls rustc

    check "fuzz and plot ask for a name"
    run fuzz
    dies_with "./x fuzz list"
    run plot
    dies_with "./x plot"
    run fuzz list
    ends_with 0
    prints_last wire
}

# ---------------------------------------------------------------- no apt

check_without_apt() {
    check "no apt and no C compiler"
    has_rust 1.95.0
    run build
    dies_with "a C compiler" "gcc libc6-dev"

    check "no apt and a C compiler without the C library's headers"
    has_rust 1.95.0
    stub cc 'exit 1'
    run build
    dies_with "a C compiler" "gcc libc6-dev"

    check "no apt and no Rust"
    has_cc
    run demo
    dies_with "Rust 1.88 or newer" "https://rustup.rs"

    check "no apt and a Rust that is too old"
    has_cc
    has_rust 1.75.0
    run build
    dies_with "Rust 1.88 or newer"

    check "no apt and no Java: an error before any test runs"
    has_all
    lacks javac
    run test
    dies_with "Java 17 or newer" default-jdk-headless
    never_calls "cargo test"

    for version in 11.0.2 1.8.0_392; do
        check "no apt and Java $version"
        has_all
        has_java "$version"
        run test
        dies_with "Java 17 or newer"
    done

    check "no apt and a Java that prints no version"
    has_all
    stub java
    run test
    dies_with "Java 17 or newer"

    check "no apt and no Maven"
    has_all
    lacks mvn
    run test
    dies_with Maven maven

    check "no apt and no Python, or one without its module for environments"
    has_all
    lacks python3
    run test
    dies_with "Python 3" python3-minimal
    has_python 13
    : >"$machine/no-ensurepip"
    run test
    dies_with environments python3-venv

    check "no apt and no C++ compiler or nightly Rust"
    has_all
    run fuzz wire
    dies_with "C++" g++
    run campaign miri
    dies_with rustup "https://rustup.rs"
}

# ---------------------------------------------------------------- apt, and the right to use it

check_rights() {
    check "apt, and a user without sudo"
    has_apt
    has_rust 1.95.0
    run build
    dies_with "there is no sudo" "apt-get install gcc libc6-dev"
    never_calls apt-get

    if command -v setsid >/dev/null; then
        check "sudo that wants a password, and no terminal"
        has_apt
        has_sudo password
        has_rust 1.95.0
        x "$(command -v setsid)" -w "$shell" "$clone/x" build
        dies_with "wants a password" "apt-get install gcc libc6-dev"
        never_calls apt-get
    fi

    check "a user with sudo and a umask of his own"
    has_apt
    has_sudo yes
    has_rust 1.95.0
    x "$bin/sh" -c 'umask 077; "$@"' sh "$bin/sh" "$clone/x" build
    ends_with 0
    calls "install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 gcc libc6-dev"
    calls "sudo has umask 0022"
    calls "cargo build --release -p weir"

    check "root needs no sudo"
    has_apt
    has_user 0
    has_rust 1.95.0
    run build
    ends_with 0
    calls "gcc libc6-dev"

    check "apt that fails"
    has_apt
    has_user 0
    has_rust 1.95.0
    echo 'exit 100' >"$machine/apt-get"
    run build
    dies_with "a C compiler" "could not install: gcc libc6-dev"
}

check_rust_from_apt() {
    check "apt's answers in the user's language"
    has_apt
    has_user 0
    has_cc
    echo 'rustc-web 1.90.0+dfsg1-1~deb12u1
cargo-web 1.90.0+dfsg1-1~deb12u1' >"$machine/offers"
    (has_rust 1.90.0 && cd "$bin" && mv cargo rustc "$machine")
    echo 'cp "$MACHINE/cargo" "$MACHINE/rustc" "$MACHINE/bin"' >"$machine/apt-get"
    run build
    ends_with 0
    calls "rustc-web cargo-web"

    check "apt that offers an old Rust only"
    has_apt
    has_user 0
    has_cc
    echo 'rustc 1.63.0
cargo 0.66.0' >"$machine/offers"
    run build
    dies_with "Rust 1.88 or newer, which apt does not offer" "https://rustup.rs"

    check "a rustup with an old Rust, and no network"
    has_cc
    has_rust 1.75.0
    stub rustup 'exit 1'
    run build
    dies_with "rustup could not install Rust stable"

    check "a rustup that is not on the path yet"
    has_cc
    mkdir -p "$machine/home of u/.cargo/bin"
    (has_rust 1.95.0 && cd "$bin" && mv cargo rustc "$machine/home of u/.cargo/bin")
    run build
    ends_with 0

    check "a Java that apt installs and the path hides"
    has_apt
    has_user 0
    has_all
    has_java 11.0.2
    run test
    dies_with '`java` on the path is of version 11'
}

# ---------------------------------------------------------------- places

check_places() {
    check "a build cache with a space, relative to the caller"
    has_all
    x CARGO_TARGET_DIR="the cache" "$shell" "$clone/x" build
    ends_with 0
    prints_last "==> built: $work/the cache/release/weir"

    check "two clones share no build cache, and one by two paths has one"
    has_all
    other="$work/second clone"
    cp -R "$clone" "$other"
    x "$shell" "$other/x" build
    prints_last "==> built: $(cache "$other")/release/weir"
    [ "$(cache "$other")" != "$(cache "$clone")" ] || fail "one cache for both"
    rm -rf "$other"
    ln -s "$clone" "$other"
    x "$shell" "$other/x" build
    prints_last "==> built: $(cache "$clone")/release/weir"
    rm "$other"

    check "CDPATH and a relative call"
    has_all
    mkdir -p "$work/elsewhere/clone of weir"
    x CDPATH="$work/elsewhere" "$shell" "clone of weir/x" build
    ends_with 0

    check "no HOME"
    has_all
    x env -u HOME "$shell" "$clone/x" build
    ends_with 0
    prints_last "==> built: $(cache "$clone")/release/weir"
    stub getent 'exit 2'
    x env -u HOME "$shell" "$clone/x" build
    dies_with "HOME is not set"

    check "recorded data, relative to the caller; none; a folder that is not there"
    has_all
    mkdir -p "$work/recorded data"
    x WEIR_DATA="recorded data" "$shell" "$clone/x" build
    calls "WEIR_DATA=$work/recorded data"
    : >"$log"
    x WEIR_DATA= "$shell" "$clone/x" build
    calls "WEIR_DATA=unset"
    x WEIR_DATA=/no/such "$shell" "$clone/x" build
    dies_with "no folder /no/such"

    check "clean removes a build cache of Cargo's and no other folder"
    has_all
    mkdir -p "$work/precious"
    x CARGO_TARGET_DIR="$work/precious" "$shell" "$clone/x" clean
    dies_with "left alone"
    [ -d "$work/precious" ] || fail "it is gone"
    : >"$work/precious/.rustc_info.json"
    x CARGO_TARGET_DIR="$work/precious" "$shell" "$clone/x" clean
    ends_with 0
    [ ! -e "$work/precious" ] || fail "it is there"
}

# ---------------------------------------------------------------- the summary

check_summary() {
    check "nothing skipped"
    has_all
    run test
    ends_with 0
    prints "the checks of x"
    prints "Java read the 1 values that Rust wrote"
    calls "python3 -m pytest -c ../pyproject.toml"
    prints_last "5 passed, 0 failed, 0 skipped"
    [ -z "$(ls "$machine/tmp of u")" ] || fail "it leaves files in TMPDIR"

    check "skipped tests are counted once, by need, and not as passed"
    has_all
    cat >"$machine/cargo-test" <<'END'
{
    printf 'powercut\tdisk_loses_nothing\tFUSE\tno /dev/fuse\n'
    printf 'flow\tdays\trecorded data\tWEIR_DATA is not set\n'
    printf 'powercut\tos_tells\tFUSE\tno /dev/fuse\n'
    printf 'powercut\tos_tells\tFUSE\tno /dev/fuse\n'
} >>"$WEIR_SKIPS_FILE"
echo "test result: ok. 6 passed; 0 failed; 0 ignored"
echo "test result: ok. 4 passed; 0 failed; 0 ignored"
END
    run test
    ends_with 0
    prints "  needs FUSE: no /dev/fuse"
    prints "    powercut: disk_loses_nothing"
    prints_last "7 passed, 0 failed, 3 skipped: 2 need FUSE, 1 needs recorded data"

    check "a failed test is not counted as skipped"
    has_all
    cat >"$machine/cargo-test" <<'END'
printf 'flow\tdays\tFUSE\tno /dev/fuse\n' >>"$WEIR_SKIPS_FILE"
echo "test days ... FAILED"
echo "test result: FAILED. 4 passed; 1 failed; 0 ignored"
exit 101
END
    run test
    ends_with 1
    prints "  tests: the whole workspace"
    prints_last "4 passed, 1 failed, 0 skipped"

    check "each test program has a limit"
    has_all
    echo 'echo "runs by $CARGO_TARGET_X86_64_STUB_RUNNER"' >>"$machine/cargo-test"
    run test
    prints "runs by timeout -v 20m"

    check "a Python that is too old skips its step"
    has_all
    has_python 10
    run test
    ends_with 0
    prints "  python: needs Python 3.11 or newer; this is Python 3.10.0"
    never_calls pytest
}

# ---------------------------------------------------------------- planted bugs

# has_crates: one crate with tests of planted bugs in three targets, one without.
has_crates() {
    rm -rf "$clone/crates"
    mkdir -p "$clone/crates/a/src" "$clone/crates/a/tests/two" "$clone/crates/b/src"
    printf '[package]\nname = "weir-a"\n' >"$clone/crates/a/Cargo.toml"
    printf '[package]\nname = "weir-b"\n' >"$clone/crates/b/Cargo.toml"
    echo '#[cfg(feature = "planted")]' |
        tee "$clone/crates/a/src/lib.rs" "$clone/crates/a/tests/one.rs" \
            >"$clone/crates/a/tests/two/main.rs"
    : >"$clone/crates/b/src/lib.rs"
    cat >"$machine/cargo-planted" <<'END'
case "$*" in
*crash-points*) printf '| planted | seeds |\n| --- | --- |\n| Torn | 1 |\n| Lost | 2 |\n' ;;
*engine-oracle*) echo 'Queue: found after 3 commands, 2 suffice: a price' ;;
*weir-sim*) echo '| InLog(Torn) | 7 |' ;;
*weir-a*) echo 'test result: ok. 2 passed; 0 failed; 0 ignored' ;;
esac
END
}

check_planted() {
    check "a campaign of all planted bugs, by suite"
    has_all
    has_crates
    run campaign planted
    ends_with 0
    calls "-p weir-a --features planted --lib --test=one --test=two -- planted"
    never_calls weir-b
    prints "a 2, b 1, together 3"
    prints "| crash-points | bugs | 2 | 0 |"
    prints "| engine-oracle | bugs | 1 | 0 |"
    prints "| sim | bugs | 1 | 0 |"
    prints_last "| weir-a | tests | 2 | 0 |"

    check "a bug that is missed, a test that fails, a suite of nothing"
    has_all
    has_crates
    cat >"$machine/cargo-planted" <<'END'
case "$*" in
*crash-points*) printf '| Torn | 1 |\n| Lost | not found |\n' ;;
*engine-oracle*) echo 'Queue: NOT FOUND in 300000 commands' ;;
*weir-a*)
    echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'
    exit 101 ;;
esac
END
    run campaign planted
    ends_with 1
    prints "| crash-points FAILED | bugs | 1 | 1 |"
    prints "| engine-oracle FAILED | bugs | 0 | 1 |"
    prints "| sim FAILED | bugs | 0 | 0 |"
    prints_last "| weir-a FAILED | tests | 1 | 1 |"
    rm -rf "$clone/crates"
}

check_lies() {
    check "a campaign of few lies has a seed for the node too"
    has_all
    : >"$machine/cargo-planted"
    for seeds in 50:1 100:1 101:2 100000:1000; do
        run campaign lies "${seeds%:*}"
        ends_with 0
        calls "WEIR_LIE_SEEDS=${seeds%:*}: test --release -q -p weir-delivery --test stream lies"
        calls "WEIR_LIE_SEEDS=${seeds#*:}: test --release -q -p weir --test system a_core_that_lies"
        : >"$log"
    done
}

# ---------------------------------------------------------------- main

run_all() {
    shell=$1
    check_words
    check_without_apt
    check_rights
    check_rust_from_apt
    check_places
    check_summary
    check_planted
    check_lies
}

if [ $# -eq 0 ]; then
    for candidate in dash bash; do
        ! command -v $candidate >/dev/null || set -- "$@" $candidate
    done
    [ $# -gt 0 ] || set -- sh
fi
for candidate in "$@"; do run_all "$(command -v "$candidate")"; done
[ "$failures" = 0 ] || {
    echo "$failures failures"
    exit 1
}
echo "every check holds, by $*"
