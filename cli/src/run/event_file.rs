//! The file of `--events`, or the open descriptor: what happens to a run, one JSON object per line, for other programs.
//!
//! A thread writes them, so that a pipe which nobody reads holds up neither the wait nor the end of a command.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, SystemTime};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::duration::milliseconds;
use crate::exit::Failure;
use crate::text::{iso, printable, printable_json};

/// The most lines that are kept for a reader that does not read.
const BACKLOG: usize = 1000;
/// How long the end of the process waits for its last events to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) struct EventFile {
    file: Option<File>,
    writer: Option<(SyncSender<String>, Receiver<()>)>,
}

impl EventFile {
    /// Opens a file, or with a number the descriptor that this process inherited.
    pub(crate) fn open(to: &OsStr) -> Result<Self, Failure> {
        let descriptor = descriptor(to);
        let path = descriptor.map_or_else(|| PathBuf::from(to), |number| format!("/dev/fd/{number}").into());
        let open = |reads: bool| {
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            File::options().read(reads).append(true).create(descriptor.is_none()).custom_flags(flags).open(&path)
        };
        // A pipe without a reader. Opened for both it keeps the first events, for a reader that comes before the end.
        let opened = open(false).or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => open(true),
            _ => Err(error),
        });
        let file = opened.and_then(|file| {
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            Ok(file)
        });
        let shown = printable(&to.to_string_lossy());
        let file = file.map_err(|error| Failure::because(&format!("cannot write events to {shown}"), error))?;
        Ok(Self { file: Some(file), writer: None })
    }

    /// Writes one event, with the time and these fields.
    pub(crate) fn write(&mut self, event: &str, name: &str, fields: Value) {
        let now = SystemTime::now();
        let at_ms = now.duration_since(SystemTime::UNIX_EPOCH).map(milliseconds).unwrap_or(0);
        let mut line = json!({
            "event": event, "name": name, "at": iso(now), "at_ms": at_ms, "pid": std::process::id(),
        });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        if self.writer.is_none() {
            self.writer = self.file.take().and_then(start_writer);
        }
        if let Some((lines, _)) = &self.writer {
            // A line that finds no room is left out: the run matters more than its events.
            let _ = lines.try_send(printable_json(&line.to_string()) + "\n");
        }
    }
}

/// The descriptor that this names, if it names no file.
pub(super) fn descriptor(to: &OsStr) -> Option<RawFd> {
    to.to_str()?.parse().ok().filter(|number| *number >= 0)
}

/// The first event comes after the signals are blocked, so that the thread leaves them to their listener.
fn start_writer(mut file: File) -> Option<(SyncSender<String>, Receiver<()>)> {
    let (lines, written) = sync_channel::<String>(BACKLOG);
    let (done, end) = channel();
    let write = move || {
        while let Ok(line) = written.recv() {
            if file.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
        drop(done);
    };
    std::thread::Builder::new().name("events".to_owned()).spawn(write).ok()?;
    Some((lines, end))
}

impl Drop for EventFile {
    fn drop(&mut self) {
        if let Some((lines, end)) = self.writer.take() {
            drop(lines);
            let _ = end.recv_timeout(LAST_WORDS);
        }
    }
}
