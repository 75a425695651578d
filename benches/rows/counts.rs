//! System calls and context switches of a client, counted over many cycles of a blocking caller.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{
    client::{acquire, connect, release},
    place::{Placement, counted},
    roles::{Helper, serve},
    stats::median,
    table::Table,
};
use testkit::RedisServer;

const CYCLES: u64 = 1000;

pub fn measure(rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let url = server.tcp_url();
    switches(rounds, &server, &url, table);
    system_calls(&url, table);
}

fn switches(rounds: usize, server: &RedisServer, url: &str, table: &mut Table) {
    let mut helper = Helper::start("cycles", &[url]);
    helper.ask("10");
    Placement::Split.put(server.pid(), &[helper.pid()]);
    let [mut sleeps, mut preemptions, mut cpu_us] = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        let before = counted(helper.pid());
        helper.ask(&CYCLES.to_string());
        let after = counted(helper.pid());
        let of_a_cycle = |after: u64, before: u64| (after - before) as f64 / CYCLES as f64;
        sleeps.push(of_a_cycle(after.sleeps, before.sleeps));
        preemptions.push(of_a_cycle(after.preemptions, before.preemptions));
        cpu_us.push((after.cpu_ms - before.cpu_ms) * 1000.0 / CYCLES as f64);
    }
    let [sleeps, preemptions, cpu_us] = [sleeps, preemptions, cpu_us].map(|values| median(&values));
    let made = format!("split; preempted {preemptions:.1} times as well; {cpu_us:.0} µs of CPU");
    table.row("context switches of a cycle", sleeps, &made);
    helper.end();
}

fn system_calls(url: &str, table: &mut Table) {
    let row = "system calls of a cycle";
    match by_perf(url).map(|calls| (calls, "perf")).or_else(|| Some((by_strace(url)?, "strace"))) {
        Some((calls, counter)) => table.row(row, calls, &format!("by {counter}")),
        None => table.skipped(row, "neither perf nor strace can count here"),
    }
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Counted by the kernel, which disturbs nothing. It takes root, mostly.
fn by_perf(url: &str) -> Option<f64> {
    const COUNT: [&str; 4] = ["stat", "-x,", "-e", "raw_syscalls:sys_enter"];
    runs("perf", &[&COUNT[..], &["true"]].concat()).then_some(())?;
    let mut helper = Helper::start("cycles", &[url]);
    helper.ask("10");
    let mut perf = Command::new("perf");
    let perf = perf.args(COUNT).args(["-p", &helper.pid().to_string()]).stderr(Stdio::piped()).spawn().ok()?;
    std::thread::sleep(Duration::from_millis(500));
    helper.ask(&CYCLES.to_string());
    kill_process(Pid::from_child(&perf), Signal::INT).ok()?;
    let output = perf.wait_with_output().ok()?;
    // `29412,,raw_syscalls:sys_enter,…`
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("raw_syscalls:sys_enter"))?;
    let calls: f64 = line.split(',').next()?.parse().ok()?;
    Some(calls / CYCLES as f64)
}

/// By a debugger: it makes a client so slow that its threads meet where they would not, which costs some calls more.
fn by_strace(url: &str) -> Option<f64> {
    runs("strace", &["-V"]).then_some(())?;
    // What comes before and after the cycles is the same in both, and cancels out.
    let [few, many] = [100, 100 + CYCLES].map(|cycles| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("calls");
        let strace = ["strace", "-f", "-c", "-o", file.to_str().expect("a path")];
        let mut helper = Helper::start_by(&strace, "cycles", &[url]);
        helper.ask(&cycles.to_string());
        helper.end();
        total(&std::fs::read_to_string(file).expect("what strace counted"))
    });
    Some((many - few) as f64 / CYCLES as f64)
}

/// The calls in the last line of what `strace -c` prints: `100.00 0.123 12 4567 89 total`, the errors only if there are some.
fn total(counted: &str) -> u64 {
    let line = counted.lines().rfind(|line| line.ends_with("total")).expect("a total");
    line.split_whitespace().nth(3).and_then(|calls| calls.parse().ok()).expect("a number of calls")
}

/// The helper: makes as many cycles as it is told.
pub fn cycles(arguments: &[&str]) {
    let lock = connect(arguments[0]).lock("counted").expect("a name");
    serve(|cycles| {
        (0..cycles.parse::<u64>().expect("a number")).for_each(|_| release(acquire(&lock)));
        Some("done".to_owned())
    });
}
