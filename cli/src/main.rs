//! The command line of fairlock: hold a fair distributed lock while a command runs.
//!
//! `fairlock run` is three processes, so that the command never outlives its lease:
//!
//! ```text
//! fairlock run        waits in the queue, renews the lease, manages the terminal      run/
//!   └─ lease-shim     knows the deadline; ends the command when fairlock is silent    shim/mod.rs
//!        └─ command   starts as a stage that ties its life to the shim's, then execs  shim/stage.rs
//! ```
//!
//! While it waits in a queue, its `queue-shim` (shim/queue.rs) leaves the queue if fairlock is killed.
//!
//! `local/` is the private server of `--local`, and `process/` what all of them need from the operating system. Imports
//! go one way: `run` uses `shim`, `local` and `process`; `shim` and `local` use `process`.
#![forbid(unsafe_code)]

mod args;
mod connect;
mod doctor;
mod duration;
mod exit;
mod exporter;
mod hidden;
mod history;
mod local;
mod log;
mod look;
mod names;
mod output;
mod process;
mod progress;
mod refusal;
mod run;
mod runtime;
mod sharing;
mod shim;
mod shipped;
mod stderr;
mod survey;
mod system_log;
mod text;
mod tips;
mod variables;
mod warnings;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use args::{Cli, Task};
use exit::{Failure, OWN_FAILURE};
use look::{breaking, status, wait};
use shim::stage;

fn main() -> ExitCode {
    let code = become_what_is_asked_for();
    stderr::flush(stderr::LAST_WORDS);
    code
}

/// The words are the process id of the script, then those that `fairlock hold --fd` was called with.
fn hold_for_a_script(mut words: impl Iterator<Item = OsString>) -> Result<u8, Failure> {
    let script = words.next();
    match Cli::of(std::iter::once("fairlock".into()).chain(words)) {
        Ok(Cli { server, task: Task::Hold(args), .. }) => {
            run::hold::keep_for(script, &server, &args).map_err(|failure| server.advised(failure))
        }
        _ => Err(Failure::own("not called by fairlock")),
    }
}

fn become_what_is_asked_for() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if let Some(word) = words.next() {
        // The stages are not part of the interface, so clap and its help do not know them.
        match word.to_str() {
            Some(shim::protocol::SHIM_WORD) => return shim::main(words),
            Some(shim::queue::WORD) => return shim::queue::main(),
            Some(stage::COMMAND_WORD) => return stage::become_command(words),
            Some(names::WORD) => return names::main(),
            Some(run::STAND_IN) => return exit::with(hold_for_a_script(words)),
            Some(local::server::WORD) => return local::server::main(words),
            _ => {}
        }
    }
    let cli = match Cli::of_this_process() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            args::say_wrong_call(error);
            return ExitCode::from(OWN_FAILURE);
        }
        // The help or the version.
        Err(help) => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    hidden::hide(cli.server.redis.as_deref());
    let is_quiet = match &cli.task {
        // The doctor says all that a warning would say, and more.
        Task::Doctor(_) => true,
        Task::Run(run::Args { wait, .. }) | Task::Hold(run::HoldArgs { wait, .. }) => wait.quiet,
        _ => false,
    };
    if !is_quiet {
        warnings::show();
    }
    let result = match cli.task {
        Task::Run(run) => run::run(&cli.server, &run),
        Task::Hold(args) => run::hold::hold(&cli.server, &args),
        Task::Status(args) => status::status(&cli.server, &args),
        Task::Wait(args) => wait::wait(&cli.server, &args),
        Task::Break(args) => breaking::break_lease(&cli.server, &args),
        Task::Doctor(args) => doctor::doctor(&cli.server, &args),
        Task::Watch(args) => watch::watch(&cli.server, &args),
        Task::History(args) => history::history(&cli.server, &args),
        Task::Exporter(args) => exporter::exporter(&cli.server, &args),
        Task::Local(args) => local::local(&args),
        Task::Completions(args) => shipped::completions(args::command(), &args),
        Task::ManPages(args) => shipped::man_pages(args::command(), &args),
        Task::Connection => Err(Failure::own("this is only a page: fairlock help connection")),
    };
    exit::with(result.map_err(|failure| cli.server.advised(failure)))
}
