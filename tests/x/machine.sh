# Machines for the checks of `x`: a path with the usual small tools, and stubs of the tools that `x`
# looks for, installs or runs. run.sh sources this file and sets `work` before.
#
# Each call of a stub appends a line to $machine/log: its name and its arguments. The scripts of
# stubs are in single quotes: variables in them are the stub's.
# shellcheck shell=sh disable=SC2016

machine=${work:?the folder of all machines}/machine
bin=$machine/bin
log=$machine/log

# The tools of every system with a shell.
TOOLS="awk basename cat chmod cksum cmp cp cut diff dirname env fold grep head ls mkdir mktemp"
TOOLS="$TOOLS rm sed sh sort tail tee uniq wc"

# An ordinary user with a home, and no stub but `id` and `getent`.
new_machine() {
    rm -rf "$machine"
    mkdir -p "$bin" "$machine/home of u" "$machine/tmp of u"
    : >"$log"
    for tool in $TOOLS; do
        ln -s "$(command -v "$tool")" "$bin/$tool"
    done
    has_user 1000
    stub getent 'echo "u:x:1000:1000::$MACHINE/home of u:/bin/sh"'
}

# stub NAME [SCRIPT]: a command that logs its call, then runs the script.
stub() {
    {
        echo '#!/bin/sh'
        printf 'echo "%s $*" >>"$MACHINE/log"\n%s\n' "$1" "${2:-}"
    } >"$bin/$1"
    chmod +x "$bin/$1"
}

lacks() { rm -f "$bin/$1"; }

has_user() { stub id "echo $1"; }

has_cc() { stub cc; }

# has_rust VERSION: `cargo test --workspace` runs $machine/cargo-test, and all with planted bugs
# $machine/cargo-planted.
has_rust() {
    stub rustc "printf 'rustc $1 (stub)\nhost: x86_64-stub\n'"
    stub cargo '
        echo "cargo has WEIR_DATA=${WEIR_DATA-unset}" >>"$MACHINE/log"
        [ -z "${WEIR_LIE_SEEDS-}" ] ||
            echo "cargo has WEIR_LIE_SEEDS=$WEIR_LIE_SEEDS: $*" >>"$MACHINE/log"
        case "$*" in
        --version) echo "cargo '"$1"' (stub)" ;;
        "test --workspace"*) . "$MACHINE/cargo-test" ;;
        "run -q -p xtask -- plants") printf "a One\nb Two\na Three\n" ;;
        *"--features planted"*) . "$MACHINE/cargo-planted" ;;
        *wire_vectors*write*)
            for folder; do :; done
            echo frame >"$folder/frames.txt" ;;
        esac'
    echo 'echo "test result: ok. 5 passed; 0 failed; 0 ignored"' >"$machine/cargo-test"
}

# has_java VERSION: a JDK, and Maven.
has_java() {
    stub java "echo 'openjdk version \"$1\" 2023-10-17' >&2"
    stub javac "echo 'javac $1'"
    stub mvn '
        for argument; do
            case $argument in -Dout=*) out=${argument#-Dout=} ;; esac
        done
        cp "$out/from-rust/frames.txt" "$out/from-java/frames.txt"'
}

# has_python MINOR: Python 3.MINOR with its module for environments.
has_python() {
    stub python3 '
        case "$*" in
        *version_info*) [ '"$1"' -ge "$(echo "$*" | sed "s/.*(3, \([0-9]*\)).*/\1/")" ] ;;
        --version) echo "Python 3.'"$1"'.0" ;;
        "-c import ensurepip"*) [ ! -e "$MACHINE/no-ensurepip" ] ;;
        "-m venv"*)
            mkdir -p "$3/bin"
            cp "$0" "$3/bin/python3"
            cp "$0" "$3/bin/python"
            cp "$MACHINE/bin/maturin" "$3/bin/maturin" ;;
        esac'
    stub maturin '
        while [ "$1" != --out ]; do shift; done
        mkdir -p "$2"
        : >"$2/weir-0.whl"'
}

# has_apt: `apt-get install` runs $machine/apt-get. $machine/offers has the lines `PACKAGE VERSION`
# that `apt-cache policy` answers from, in the user's language.
has_apt() {
    : >"$machine/apt-get"
    : >"$machine/offers"
    stub apt-get '[ "$1" != install ] || . "$MACHINE/apt-get"'
    stub apt-cache '
        word=Installationskandidat
        case ${LC_ALL:-${LANG:-C}} in C* | en*) word=Candidate ;; esac
        printf "%s:\n  Installiert: (keine)\n" "$2"
        version=$(sed -n "s/^$2 //p" "$MACHINE/offers")
        echo "  $word: ${version:-(keine)}"'
}

# has_sudo yes|password: sudo that runs commands, or one that asks for a password first.
has_sudo() {
    stub sudo '
        echo "sudo has umask $(umask)" >>"$MACHINE/log"
        if [ '"$1"' = password ]; then echo "sudo: a password is required" >&2; exit 1; fi
        [ "$*" != "-n true" ] || exit 0
        exec "$@"'
}

# The tools that `./x test` needs.
has_all() {
    has_cc
    has_rust 1.95.0
    has_java 21.0.1
    has_python 13
}
