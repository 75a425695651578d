//! Completions, man pages and the version.

use std::process::{Command, Stdio};

use crate::pty::Terminal;
use crate::shared::{Redis, eventually, fairlock, hold};

const BINARY: &str = env!("CARGO_BIN_EXE_fairlock");

fn printed(words: &[&str]) -> String {
    let output = fairlock().args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a shell prints for this script. None, after a message, if the shell is not installed.
fn told_by(shell: &[&str], script: &str) -> Option<String> {
    let command = Command::new(shell[0]).args(&shell[1..]).arg(script).stdin(Stdio::null()).output();
    let Ok(output) = command else {
        testkit::say(format_args!("SKIPPED: no completions for {}, which is not installed", shell[0]));
        return None;
    };
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What one key completes, in each shell that is here.
#[test]
fn shells_complete_names_of_locks() {
    let redis = Redis::start();
    let _locks = ["deploy:web", "deploy:db", "other", "$(touch x)"].map(|name| hold(&redis, name, "the holder"));
    let folder = tempfile::tempdir().unwrap();
    // It records its arguments, which `ps` shows to other users. And it asks again if there are no names, because on a
    // slow machine they come too late now and then.
    let (binary, arguments) = (folder.path().join("fairlock"), folder.path().join("arguments"));
    let recorder = format!(
        r#"#!/bin/sh
        echo "$@" >>'{}'
        line=$(cat)
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
            names=$(printf '%s\n' "$line" | {BINARY} "$@") || exit $?
            [ -z "$names" ] || break
        done
        [ -z "$names" ] || printf '%s\n' "$names"
        "#,
        arguments.display()
    );
    std::fs::write(&binary, recorder).unwrap();
    std::fs::set_permissions(&binary, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("/bin/true", folder.path().join("program-of-this-test")).unwrap();
    let here = folder.path().join("here");
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("file-of-this-test"), "").unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let file = |shell: &str| {
        let path = folder.path().join(format!("_{shell}"));
        std::fs::write(&path, printed(&["completions", shell])).unwrap();
        path.display().to_string()
    };
    let names = |url: &str, line: &str| {
        let typed = folder.path().join("typed");
        std::fs::write(&typed, format!("{line}\n")).unwrap();
        let typed = std::fs::File::open(typed).unwrap();
        let output = fairlock().env("REDIS_URL", url).arg("__names").stdin(typed).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let found = |url: &str, line: &str| eventually(line, || Some(names(url, line)).filter(|names| !names.is_empty()));
    assert_eq!(found(&redis.url(), "fairlock status "), "deploy:db\ndeploy:web\nother\n", "no name runs anything");
    assert_eq!(found("unix:///none.sock", &format!("fairlock --redis {} break o", redis.url())), "other\n");
    for silent in ["unix:///none.sock", "nonsense"] {
        assert_eq!(names(silent, "fairlock status "), "");
    }
    redis.stop();
    assert_eq!(names(&redis.url(), "fairlock status "), "", "a server that hangs keeps nobody waiting");
    redis.cont();

    let variables = [("REDIS_URL", redis.url()), ("PATH", path)];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let types = |terminal: &mut Terminal, prompt: &str| {
        for (typed, completed) in [
            ("fairlock status ot", "fairlock status other"),
            ("fairlock wait -w 1m deploy:w", "fairlock wait -w 1m deploy:web"),
            ("fairlock run x --and ot", "fairlock run x --and other"),
            ("fairlock hold x --signal US", "fairlock hold x --signal USR"),
            ("fairlock run deploy:web prog", "fairlock run deploy:web program-of-this-test"),
            ("fairlock run deploy:web -- program-of-this-test file-o", "program-of-this-test file-of-this-test"),
        ] {
            let shows = |screen: &str| screen.contains(completed) && screen.contains(&format!("{prompt}fairlock"));
            terminal.keys_and_await(&format!("{typed}\t"), shows);
            terminal.keys_and_await("\x15", |screen| !screen.contains(completed));
        }
    };
    let mut bash = Terminal::open(&variables);
    // One that reads keys: that of the terminal reads lines.
    bash.enter("stty echo; exec bash --norc --noprofile");
    bash.enter(&format!("source {}; cd {}; PS1='BA''SH> '; clear", file("bash"), here.display()));
    bash.await_screen(|screen| screen.starts_with("BASH> "));
    types(&mut bash, "BASH> ");
    if told_by(&["zsh", "-f", "-c"], "").is_some() {
        let mut zsh = Terminal::open(&variables);
        zsh.enter("exec zsh -f");
        let dump = folder.path().join("dump");
        let load = format!("autoload -U compinit; compinit -uD -d {}; source {}", dump.display(), file("zsh"));
        zsh.enter(&format!("{load}; cd {}; PS1='ZS''H> '; clear", here.display()));
        zsh.await_screen(|screen| screen.starts_with("ZSH> "));
        types(&mut zsh, "ZSH> ");
    }
    let fish =
        format!("source {}; complete -C 'fairlock status de'; complete -C 'fairlock hold x --signal US'", file("fish"));
    let output = Command::new("fish").args(["--no-config", "-c", &fish]).envs(variables).output();
    if let Ok(output) = output {
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "deploy:db\ndeploy:web\nUSR1\nUSR2\n");
    }
    let arguments = std::fs::read_to_string(arguments).unwrap();
    assert!(arguments.lines().all(|line| line == "__names"), "a line may have a password: {arguments}");
}

/// The man page of each subcommand has them all, since there is no page to go to from it.
#[test]
fn the_options_of_the_connection_have_one_page() {
    let common = ["--tls-ca", "--password-command", "redis+sentinel://", "rediss"];
    let page = printed(&["help", "connection"]);
    assert!(common.iter().all(|told| page.contains(told)), "{page}");
    for name in ["run", "hold", "status", "wait", "break", "doctor", "watch", "history", "exporter"] {
        let help = printed(&[name, "--help"]);
        assert!(help.contains("--redis <URL>") && help.contains("`fairlock help connection`"), "{help}");
        assert!(!common.iter().any(|told| help.contains(told)), "{help}");
    }
    let alone = fairlock().arg("connection").output().unwrap();
    assert!(alone.status.code() == Some(125) && !printed(&["--help"]).contains("\n  connection"), "{alone:?}");
}

#[test]
fn each_subcommand_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    printed(&["man-pages", folder.path().to_str().unwrap()]);
    let page = |name: &str| std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
    let main = page("fairlock");
    let listed = main.lines().filter_map(|line| line.strip_suffix("(1)")).map(|name| name.replace("\\-", "-"));
    let listed: Vec<String> = listed.filter(|name| name.starts_with("fairlock-")).collect();
    assert!(listed.iter().any(|name| name == "fairlock-run"), "{main}");
    for name in &listed {
        let page = page(name);
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{page}");
        let asks_a_server = !["fairlock-local", "fairlock-completions"].contains(&name.as_str());
        for part in ["Trust only this certificate authority", ".SH \"SENTINEL AND CLUSTER\""] {
            assert_eq!(page.contains(part), asks_a_server, "what the short help leaves out: {page}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), listed.len() + 1);
    let run = page("fairlock-run");
    assert!(run.contains(".SH EXAMPLES\n.nf\n") && run.contains(".SH \"EXIT CODES\""), "{run}");
    assert!(run.contains("\\fB\\-w\\fR, \\fB\\-\\-timeout"), "{run}");
    for name in listed.iter().map(String::as_str).chain(["fairlock"]) {
        let path = folder.path().join(format!("{name}.1"));
        let Ok(checked) = Command::new("man").args(["--warnings", "-E", "UTF-8", "-l"]).arg(path).output() else {
            return testkit::say("SKIPPED: no man to read the pages");
        };
        assert!(checked.status.success() && checked.stderr.is_empty(), "{name}: {checked:?}");
    }
}
