#!/bin/sh
# The wire's round trip through another language: frames encoded by Rust are decoded and encoded
# again by the codecs that the official SBE tool generates for Java. What Java read must be, as
# text, what Rust wrote, and what Java wrote must be the same bytes. Needs cargo, Maven and a JDK.
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
    echo "Java (>) read something else than Rust (<) wrote:"
    cat "$out/difference"
    exit 1
fi
echo "what Java read is what Rust wrote, in $(wc -l <"$out/from-java/frames.txt") values"
vectors check "$out/from-java"
