//! A file has one job. One that has grown beyond 400 lines mostly has two.

use std::fs;
use std::path::Path;
use std::process::Command;

const MOST: usize = 400;

#[test]
fn no_file_that_is_written_by_hand_has_more_than_400_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new("git").args(["ls-files", "*.rs", "*.lua", "*.py"]).current_dir(root).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let by_hand: Vec<&str> = listed.lines().filter(|path| !path.starts_with("lua/rendered/")).collect();
    // A file that was deleted and is still listed has no lines.
    let lines = |path: &str| fs::read_to_string(root.join(path)).map_or(0, |text| text.lines().count());
    let long: Vec<_> = by_hand.iter().map(|path| (lines(path), path)).filter(|(lines, _)| *lines > MOST).collect();
    assert!(by_hand.len() > 100 && long.is_empty(), "{long:#?}");
}
