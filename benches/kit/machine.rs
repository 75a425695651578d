//! What was measured, and where: the lines before a table.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::place::cores;

/// The commit, the machine, the server, and how busy the machine is with other things.
pub fn description() -> String {
    let commit = output("git", &["describe", "--always", "--dirty"]);
    let date = output("date", &["-u", "+%Y-%m-%d"]);
    let kernel = output("uname", &["-sr"]);
    let server = output(testkit::server::redis_server().to_str().unwrap_or_default(), &["--version"]);
    let server: Vec<&str> = server.split_whitespace().filter(|word| word.starts_with("v=")).collect();
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let busy = match busy_percent() {
        Some(busy) => format!("{busy:.0} % busy with other things"),
        None => "perhaps busy with other things".to_owned(),
    };
    format!("Commit {commit}, {date}; {} cores of {model}, {kernel}, {busy}; Redis {}.", cores(), server.join(" "))
}

/// What the threads of a process have computed so far, in microseconds.
pub fn cpu_us(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a process that runs");
    threads.flatten().filter_map(|thread| of_thread_us(&thread.path())).map(|[computed, _]| computed).sum()
}

/// The same of the main thread, and for how long it has waited for a core.
pub fn main_us(pid: u32) -> [f64; 2] {
    of_thread_us(format!("/proc/{pid}").as_ref()).expect("a kernel that counts times")
}

/// None: it has ended.
fn of_thread_us(folder: &Path) -> Option<[f64; 2]> {
    let times = fs::read_to_string(folder.join("schedstat")).ok()?;
    let mut times = times.split_whitespace().map(|ns| ns.parse::<f64>());
    Some([times.next()?.ok()? / 1000.0, times.next()?.ok()? / 1000.0])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    output.map_or_else(|_| "?".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// How much of all cores others use while this process sleeps.
fn busy_percent() -> Option<f64> {
    // user nice system idle iowait …
    let times = || -> Option<(f64, f64)> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let times: Vec<f64> =
            stat.lines().next()?.split_whitespace().skip(1).filter_map(|time| time.parse().ok()).collect();
        Some((times.iter().sum(), times.get(3)? + times.get(4)?))
    };
    let before = times()?;
    std::thread::sleep(Duration::from_secs(2));
    let after = times()?;
    Some(100.0 * (1.0 - (after.1 - before.1) / (after.0 - before.0)))
}
