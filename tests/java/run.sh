#!/bin/sh
# The wire's round trip through another language: the codecs that the official SBE tool generates
# for Java decode frames that Rust encoded, and encode them again. Java must read the values that
# Rust wrote (compared as text) and write the same bytes. Needs cargo, Maven and a JDK.
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
out=${CARGO_TARGET_DIR:-$PWD/target}/java
vectors() { cargo run -q -p weir-wire --example wire_vectors -- "$@"; }

rm -rf "$out/from-rust" "$out/from-java"
mkdir -p "$out/from-rust" "$out/from-java"
vectors write "$out/from-rust"
mvn -B -q -ntp -f tests/java/pom.xml -Dout="$out" process-classes
diff "$out/from-rust/frames.txt" "$out/from-java/frames.txt" | head -n 20 >"$out/difference"
if [ -s "$out/difference" ]; then
    echo "the values that Rust wrote (<) and Java read (>) differ:"
    cat "$out/difference"
    exit 1
fi
echo "Java read the $(wc -l <"$out/from-java/frames.txt") values that Rust wrote"
vectors check "$out/from-java"
