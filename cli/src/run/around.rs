//! The scripts around this process that hold a lock by `fairlock hold --fd`. Their stand-ins show which lock it is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::stand_in::{self, StandIn};
use crate::args::{Cli, Task};
use crate::connect;
use crate::exit::Failure;
use crate::process::{descriptors, open_file, table};
use crate::text::printable;

/// What names a server, and the locks there.
const VARIABLES: [&[u8]; 4] = [b"REDIS_URL=", b"FAIRLOCK_REDIS=", b"FAIRLOCK_LOCAL=", b"FAIRLOCK_PREFIX="];

/// The one that holds this lock for the nearest script around this process.
pub(super) fn stand_in(server: &connect::Args, name: &str) -> Option<StandIn> {
    let mut all: Vec<StandIn> = table::numbers().filter_map(|pid| look(pid, server, name)).collect();
    // A shell becomes the last command of its script.
    let mut around = std::iter::once(table::own_pid()).chain(table::ancestors());
    let nearest = around.find_map(|ancestor| all.iter().position(|one| one.script == ancestor))?;
    Some(all.swap_remove(nearest))
}

/// Fails if a script around this process holds one of these locks until this process ends: until then it is open here,
/// too, what the script would close. The job would wait for itself.
pub(super) fn refuse_own<'a>(server: &connect::Args, names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    // Most processes have inherited no such file, and need not look at all others.
    if descriptors::open().into_iter().all(|descriptor| open_file::watchers(descriptor).is_empty()) {
        return Ok(());
    }
    for name in names {
        if let Some(StandIn { pid, script, descriptor, .. }) = stand_in(server, name)
            && open_file::watchers(descriptor).contains(&pid)
        {
            let name = printable(name);
            return Err(Failure::own(format!(
                "{name} is already held by this job's script (pid {script}): the job would wait for itself; `fairlock \
                 hold {name} -u` gives it back"
            )));
        }
    }
    Ok(())
}

/// None if this process is no stand-in that holds this lock of this server.
fn look(pid: i32, server: &connect::Args, name: &str) -> Option<StandIn> {
    let mut words = texts(pid, "cmdline").into_iter().map(OsString::from_vec).skip(1);
    if words.next()? != stand_in::WORD {
        return None;
    }
    let script = words.next()?.to_str()?.parse().ok()?;
    let told = Cli::of(std::iter::once("fairlock".into()).chain(words)).ok()?;
    let Task::Hold(args) = told.task else { return None };
    let names: Vec<String> = args.names().map(str::to_owned).collect();
    let is_meant = names.iter().any(|held| held == name);
    let is_there = told.server.names_the_same_as(server) && variables(pid) == variables(table::own_pid());
    (is_meant && is_there).then_some(StandIn { pid, script, names, descriptor: args.fd? })
}

fn variables(pid: i32) -> Vec<Vec<u8>> {
    let mut found = texts(pid, "environ");
    found.retain(|text| VARIABLES.iter().any(|name| text.starts_with(name)));
    found.sort_unstable();
    found
}

/// The texts in a file of /proc, each of which ends with a zero byte.
fn texts(pid: i32, file: &str) -> Vec<Vec<u8>> {
    let mut all = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    all.pop();
    all.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}
