//! The npm package, as a client that `conformance` judges.

use std::path::Path;

use crate::conformance::{replay, share_slots};

/// Packed and installed by `make test-package-node`, which names the folder.
#[test]
#[ignore = "it needs the npm package: make test-package-node"]
fn the_npm_package_conforms() {
    let installed = std::env::var("FAIRLOCK_NODE").expect("a folder with the package");
    let command = format!("node '{}'", Path::new(&installed).join("test/driver.mjs").display());
    replay(&command);
    // What the keeper does under more faults is seen in crews of Rust: here it is the package's face that is new.
    share_slots(std::slice::from_ref(&command), 1);
    share_slots(&[command], 3);
}
