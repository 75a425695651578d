//! Where a test runs, and where it says something.

use std::{
    env,
    fmt::Display,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Prints this past the test harness, which shows the output of failing tests only.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The folder of the tested package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the test kit is in a folder of the package")
}

/// A folder for files that a failed run leaves for its reader: `target/tmp`, next to the test binaries.
pub fn tmp() -> PathBuf {
    let binary = env::current_exe().expect("the path of the running test binary");
    // target/debug/deps/BINARY, or target/debug/BINARY of the test kit's own program.
    let mut folders = binary.ancestors().skip(1).skip_while(|folder| folder.ends_with("deps"));
    let tmp = folders.nth(1).expect("a test binary is in the target folder").join("tmp");
    fs::create_dir_all(&tmp).expect("a folder for temporary files");
    tmp
}
