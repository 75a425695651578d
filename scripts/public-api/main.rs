//! Lists the public items of the library whose JSON of rustdoc is named, without what the compiler implements by itself.
//!
//! `cargo public-api` lists the same, and is built of 146 crates instead of a dozen.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let json: PathBuf = std::env::args_os().nth(1).unwrap_or_default().into();
    let library = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true);
    match library.build() {
        Ok(library) => library.items().for_each(|item| println!("{item}")),
        Err(error) => {
            eprintln!("public-api: {}: {error}", json.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
