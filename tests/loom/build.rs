//! For the files of the library that this crate compiles: their own tests are not for loom.

fn main() {
    println!("cargo:rustc-cfg=loom");
    println!("cargo:rerun-if-changed=build.rs");
}
