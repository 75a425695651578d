//! Each help fits one screen, and says what a newcomer needs.

use crate::shared::fairlock;

/// What this help prints at a terminal of 80 columns.
pub(crate) fn help(words: &[&str]) -> String {
    let output = fairlock().env("COLUMNS", "80").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The names of all subcommands, from the help itself.
pub(crate) fn subcommands() -> Vec<String> {
    let help = help(&["-h"]);
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn each_short_help_fits_one_screen() {
    let subcommands = subcommands();
    assert!(subcommands.iter().any(|name| name == "run"), "{subcommands:?}");
    let calls = subcommands.iter().filter(|name| *name != "help").map(|name| vec![name.as_str(), "-h"]);
    for call in calls.chain([vec!["-h"]]) {
        let help = help(&call);
        assert!(help.lines().count() < 24, "{call:?} has {} lines:\n{help}", help.lines().count());
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{call:?}: {help}");
        assert!(!help.contains("tls") && !help.contains("entinel"), "encryption has its own heading in --help: {help}");
    }
}
