//! The templates are embedded whole: a file that is added to them counts too.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=templates");
}
