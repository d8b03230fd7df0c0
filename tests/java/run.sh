#!/bin/sh
# The wire's round trip through another language: frames encoded by Rust are decoded and encoded
# again by the codecs that the official SBE tool generates for Java; Rust compares what Java read
# (as text) and what it wrote (as bytes) with its own. Needs cargo, Maven and a JDK.
set -eu
cd "$(dirname "$0")/../.."
out=${CARGO_TARGET_DIR:-$PWD/target}/java
vectors=$out/vectors

rm -rf "$vectors"
mkdir -p "$vectors"
cargo run -q -p weir-wire --example java_vectors -- write "$vectors"
mvn -B -q -ntp -f tests/java/pom.xml -Dout="$out" -Dvectors="$vectors" process-classes
cargo run -q -p weir-wire --example java_vectors -- check "$vectors"
