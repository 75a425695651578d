//! What people install has no hooks for tests. The test kit needs them, and cargo unites the features of what it builds
//! together.

use std::process::Command;

/// The crates and features that cargo builds the command line with.
fn features(edges: &str) -> String {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.args(["tree", "--offline", "--locked", "-p", "fairlock-cli", "-e", edges]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_command_line_is_built_without_the_hooks_of_tests() {
    let hooks = "fairlock feature \"__test-hooks\"";
    let shipped = features("normal,build,features");
    assert!(shipped.contains("fairlock feature \"operator\"") && !shipped.contains(hooks), "{shipped}");
    assert!(features("all,features").contains(hooks), "the tests have them, and so they would be seen");
}
