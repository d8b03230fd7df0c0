//! Declares `--cfg loom` to the compiler; the tail's test explores every interleaving under it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(loom)");
}
