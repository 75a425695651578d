//! What people install has no hooks for tests. The test kit needs them, and cargo unites the features of what it builds
//! together. And the packages are built of the crates with which the library is tested.

use std::collections::BTreeMap;
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

/// The crates that a lock file names: by name and by what a compatible version begins with, the version.
fn locked(folder: &str) -> BTreeMap<(String, String), String> {
    let file = format!("{}/{folder}/Cargo.lock", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap();
    let crates = text.split("[[package]]").skip(1).map(|package| {
        let of = |what: &str| package.split_once(&format!("\n{what} = \"")).and_then(|(_, is)| is.split('"').next());
        (of("name").expect(&file), of("version").expect(&file))
    });
    let compatible = |version: &str| {
        let zeros = version.split('.').take_while(|part| *part == "0").count();
        version.split('.').take(zeros + 1).collect::<Vec<_>>().join(".")
    };
    crates.map(|(name, version)| ((name.into(), compatible(version)), version.into())).collect()
}

/// So they also share their builds. `cargo update` in each folder, with `--precise` where one is behind.
#[test]
fn the_lock_files_of_packages_agree_with_the_librarys() {
    let ours = locked(".");
    assert!(ours.contains_key(&("redis".into(), "1".into())), "{ours:?}");
    for folder in ["python", "node", "fuzz"] {
        let theirs = locked(folder);
        let differs = |(one, version): &(&_, &String)| ours.get(*one).is_some_and(|ours| ours != *version);
        let other: Vec<_> = theirs.iter().filter(differs).collect();
        assert!(other.is_empty(), "{folder}/Cargo.lock has other versions than Cargo.lock: {other:?}");
    }
}
