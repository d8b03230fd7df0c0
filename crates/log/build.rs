//! Tells the compiler that `--cfg loom`, under which the tail's test explores every interleaving,
//! is meant.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(loom)");
}
