//! The examples of the pages about the command line are run as they stand there.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Output, Stdio};

use crate::shared::{Redis, fairlock};

/// A folder with programs of the names that examples use, and the server that they ask.
struct Place {
    folder: tempfile::TempDir,
    redis: Redis,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        let logged = "sync.sh deploy.sh move.sh dump.sh backup.sh migrate.sh start.sh scheduler make-report.sh \
                      train.sh query.sh rebuild.sh";
        for name in logged.split(' ') {
            let script = programs.join(name);
            std::fs::write(
                &script,
                format!("#!/bin/sh\necho {name} \"$@\" >>'{}'\n", folder.path().join("log").display()),
            )
            .unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
            symlink(&script, folder.path().join(name)).unwrap();
        }
        for name in ["make", "a", "b"] {
            symlink("/bin/true", programs.join(name)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_fairlock"), programs.join("fairlock")).unwrap();
        let server = testkit::server::redis_server().canonicalize().unwrap();
        symlink(server, programs.join("redis-server")).unwrap();
        let local = folder.path().join("local");
        std::fs::create_dir(&local).unwrap();
        std::fs::set_permissions(&local, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder, redis: Redis::start() }
    }

    fn run(&self, script: &str) -> Output {
        let path = format!("{}:{}", self.folder.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.current_dir(self.folder.path()).env("PATH", path).env("REDIS_URL", self.redis.url());
        shell.env("FAIRLOCK_LOCAL_DIR", self.folder.path().join("local")).stdin(Stdio::null());
        shell.args(["-ec", script]).output().unwrap()
    }

    /// The programs that were run, with their arguments.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let local = self.folder.path().join("local");
        let _ = fairlock().env("FAIRLOCK_LOCAL_DIR", local).args(["local", "stop", "--force"]).output();
    }
}

/// The blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(testkit::root().join(page)).unwrap();
    let begin = format!("```{language}\n");
    let parts = text.split(&begin).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// The lines of the page's crontabs, in which the time comes first.
fn crontab() -> impl Iterator<Item = String> {
    let blocks = blocks("docs/command-line.md", "text");
    let lines: Vec<String> = blocks.iter().flat_map(|block| block.lines()).map(str::to_owned).collect();
    lines.into_iter().filter(|line| line.starts_with(|c: char| c == '*' || c.is_ascii_digit()))
}

#[test]
fn the_scripts_that_replace_those_with_flock_work() {
    let place = Place::new();
    let mut scripts = blocks("docs/command-line.md", "sh");
    scripts.extend(crontab().filter_map(|line| Some(line[line.find("fairlock")?..].to_owned())));
    for script in &scripts {
        let output = place.run(script);
        assert!(output.status.success() && output.stderr.is_empty(), "{script}: {output:?}");
    }
    let log = place.log();
    for done in ["sync.sh\n", "dump.sh\n", "deploy.sh\n", "move.sh\n", "backup.sh --all\n", "migrate.sh\n"] {
        assert!(log.contains(done), "{done} in {log}");
    }
    assert!(scripts.len() >= 6 && log.lines().count() >= 6, "{log}");
}

/// Slot 0 is the first GPU of the mask, and slot 1 the second.
#[test]
fn the_script_for_a_mask_chooses_among_the_gpus_of_the_mask() {
    let place = Place::new();
    let all = blocks("docs/command-line.md", "sh");
    let [script] = all.iter().filter(|script| script.contains("MASK")).collect::<Vec<_>>()[..] else {
        panic!("one script has a mask")
    };
    let train = |mask: &str| {
        let trains = "echo 'echo train.sh $CUDA_VISIBLE_DEVICES >>log' >bin/train.sh";
        let output = place.run(&format!("{trains}; export CUDA_VISIBLE_DEVICES={mask}; {script}"));
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    };
    train("2,3");
    let host = String::from_utf8(place.run("hostname").stdout).unwrap();
    let first = place.redis.hold(&format!("gpu:{}:2,3", host.trim()), &["--slots", "2"]);
    train("2,3");
    // Those of another mask are others.
    train("7");
    assert_eq!(place.log(), "train.sh 2\ntrain.sh 3\ntrain.sh 7\n");
    drop(first);
}

/// The calls of flock on the page work with flock, so that the page compares real programs.
#[test]
fn the_flock_calls_that_they_replace_work_with_flock() {
    let place = Place::new();
    let calls: Vec<String> = blocks("docs/command-line.md", "text");
    let scripts = calls.iter().filter(|call| call.contains("flock 9"));
    let lines = crontab().filter_map(|line| Some(line[line.find("flock")?..].to_owned()));
    for call in lines.chain(scripts.cloned()) {
        let call = call.replace("/var/lock/", "./").replace("/tmp/", "./");
        let output = place.run(&call);
        assert!(output.status.success(), "{call}: {output:?}");
    }
    assert!(place.log().lines().count() >= 3, "{}", place.log());
}

#[test]
fn the_consoles_of_the_pages_work() {
    let has_jq = Command::new("jq").arg("--version").output().is_ok();
    for page in ["docs/command-line.md", "README.md"].into_iter().filter(|page| *page == "README.md" || has_jq) {
        let place = Place::new();
        // The README begins without any lock.
        let holder = (page != "README.md").then(|| place.redis.hold("deploy", &[]));
        let blocks = blocks(page, "console");
        let calls = blocks.iter().flat_map(|block| block.lines()).filter_map(|line| line.strip_prefix("$ "));
        let calls: Vec<&str> = calls.filter(|call| holder.is_some() || call.starts_with("fairlock ")).collect();
        for call in &calls {
            let output = place.run(call);
            // `status` exits with 1 for a free lock.
            let is_free = holder.is_none() && call.contains(" status ") && output.status.code() == Some(1);
            assert!((output.status.success() || is_free) && output.stderr.is_empty(), "{call}: {output:?}");
        }
        assert!(!calls.is_empty());
    }
}

#[test]
fn the_units_for_systemd_start_what_they_name() {
    let place = Place::new();
    let mut started = 0;
    for entry in std::fs::read_dir(testkit::root().join("docs/systemd")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "timer") {
            assert!(path.with_extension("service").exists() && text.contains("OnCalendar="), "{path:?}");
            continue;
        }
        let call = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let bin = place.folder.path().join("bin");
        // `local start --foreground` does not return.
        let call = call.replace("/usr/local/bin/", &format!("{}/", bin.display())).replace(" --foreground", "");
        let output = place.run(&call.replace("%H", "host"));
        assert!(output.status.success(), "{call}: {output:?}");
        started += 1;
    }
    assert_eq!((started, place.log().as_str()), (3, place.log().as_str()));
    assert!(place.log().contains("backup.sh\n") && place.log().contains("scheduler\n"), "{}", place.log());
}

/// What this help prints at a terminal of 80 columns.
fn help(words: &[&str]) -> String {
    let output = fairlock().env("COLUMNS", "80").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The names of all subcommands, from the help itself.
fn subcommands() -> Vec<String> {
    let help = help(&["-h"]);
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

/// The program of an example is replaced by one that exists; everything else is as it is shown.
#[test]
fn the_examples_of_the_helps_work() {
    let place = Place::new();
    let mut tried = 0;
    let subcommands = subcommands();
    let calls = subcommands.iter().map(|name| vec![name.as_str(), "--help"]);
    for call in calls.chain([vec!["--help"], vec!["-h"], vec!["run", "-h"]]) {
        let help = help(&call);
        let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
        for line in examples.lines().take_while(|line| line.starts_with("  ")) {
            let example = line.trim().split("  ").next().unwrap();
            if example.contains(" history ") && testkit::run::lacks("a history", (6, 2)) {
                continue;
            }
            let output = place.run(example);
            // These commands exit with 1 for a free lock, or for a finding.
            let asks = [" status ", " break ", " doctor"].iter().any(|command| example.contains(command));
            let fine = output.status.success() || (asks && output.status.code() == Some(1));
            // Here is no terminal to watch at.
            let watches = example.contains(" watch") && output.status.code() == Some(125);
            assert!(fine || watches, "{example}: {output:?}");
            tried += 1;
        }
    }
    assert!(tried > 15, "{tried}");
}

/// The recipe of docs/coming-from-ci.md: of several commits in line only the last is deployed.
#[test]
fn a_superseded_commit_is_not_deployed() {
    let place = Place::new();
    let Ok(git) = Command::new("git").arg("--version").output() else {
        return testkit::say("SKIPPED: no git to make commits with");
    };
    assert!(git.status.success());
    let [recipe] = blocks("docs/coming-from-ci.md", "sh").try_into().unwrap();
    let commit =
        "git -c user.name=x -c user.email=x@example.org commit -q --allow-empty -m x; git push -q origin HEAD:main";
    place.run(&format!(
        "git init -q --bare -b main origin; for clone in old new; do git clone -q origin $clone 2>/dev/null; cd $clone
         git checkout -q -B main; [ $clone = new ] || {{ {commit}; }}; ln -s ../deploy.sh .; cd ..; done"
    ));
    let turn = |clone: &str| String::from_utf8(place.run(&format!("cd {clone}\n{recipe}")).stdout).unwrap();
    assert_eq!((turn("old"), place.log()), (String::new(), "deploy.sh\n".into()));
    place.run(&format!("cd new; {commit}"));
    assert_eq!((turn("old"), place.log()), ("superseded\n".into(), "deploy.sh\n".into()));
    assert_eq!((turn("new"), place.log()), (String::new(), "deploy.sh\ndeploy.sh\n".into()));
}

/// Those of examples/kubernetes, whose form `make release-check` validates.
#[test]
fn the_commands_of_the_pods_run() {
    let place = Place::new();
    for file in ["cronjob", "deployment"] {
        let path = testkit::root().join("examples/kubernetes").join(file).with_extension("yaml");
        let manifest = std::fs::read_to_string(path).unwrap();
        let [command] =
            manifest.lines().filter_map(|line| line.trim().strip_prefix("command: [")).collect::<Vec<_>>()[..]
        else {
            panic!("{file} has one command")
        };
        let words: Vec<&str> = command.trim_end_matches(']').split(", ").map(|word| word.trim_matches('"')).collect();
        let (program, call) = words.split_last().unwrap();
        assert!(program.starts_with("/usr/local/bin/") && call[0] == "/usr/bin/fairlock", "{words:?}");
        let output = place.run(&format!("fairlock {} true", call[1..].join(" ")));
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    }
}
