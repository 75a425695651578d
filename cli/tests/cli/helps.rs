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

#[test]
fn each_long_help_has_tls_and_sentinel_under_headings_of_their_own() {
    for name in subcommands() {
        let help = help(&[&name, "--help"]);
        let asks_a_server = !["local", "completions"].contains(&name.as_str());
        for part in ["\nTLS (", "\nSentinel and Cluster:\n", "sentinel_password=", "\n      --redis <URL>"] {
            assert_eq!(help.contains(part), asks_a_server, "{part}: {help}");
        }
    }
    let start = help(&["local", "start", "--help"]);
    assert!(start.contains("--foreground") && !start.contains("--redis"), "{start}");
}

#[test]
fn the_word_help_and_a_call_without_a_subcommand_print_the_help() {
    for (words, same) in [(&["help"][..], &["--help"][..]), (&["help", "run"], &["run", "--help"])] {
        assert_eq!(help(words), help(same));
    }
    for (words, same) in [(&[][..], &["-h"][..]), (&["local"], &["local", "-h"])] {
        let output = fairlock().env("COLUMNS", "80").env("FAIRLOCK_LOCAL", "1").args(words).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), help(same));
    }
}

#[test]
fn the_long_help_of_run_has_examples_exit_codes_and_what_it_cannot_do() {
    let help = help(&["run", "--help"]);
    for part in [
        "Environment:",
        "FAIRLOCK_WAITED_MS",
        "lease-shim",
        "  122 ",
        "  123 ",
        "  124 ",
        "  125 ",
        "  126 ",
        "  127 ",
        "  128+N ",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}
