//! Serves what the test kit has to tests in other languages: see `serve`.

use std::io::{stdin, stdout};

fn main() -> std::io::Result<()> {
    fairlock_testkit::serve::serve(stdin().lock(), stdout().lock())
}
