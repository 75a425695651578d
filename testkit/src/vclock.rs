//! A wall clock that a test steps, for whole servers: Linux only, and it takes a C compiler.
//!
//! ```ignore
//! let clock = WallClock::on_time();
//! let server = clock.given_to(RedisServer::builder()).start();
//! clock.step_forwards(Duration::from_secs(3600));
//! ```
//!
//! As on a machine whose clock is set, keys with a time to live expire by this clock, and timers do not run by it.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use super::{place::tmp, server::Builder};

/// The test sets how far this clock differs from the machine's. At first it does not.
#[derive(Debug)]
pub struct WallClock {
    offset: tempfile::NamedTempFile,
}

impl WallClock {
    pub fn on_time() -> WallClock {
        let offset = tempfile::Builder::new().prefix("fairlock-clock-").tempfile().expect("a file for the clock");
        let clock = WallClock { offset };
        clock.set_offset_us(0);
        clock
    }

    /// A server that uses this clock. Several servers may share it.
    pub fn given_to(&self, server: Builder) -> Builder {
        self.variables().into_iter().fold(server, |server, (name, value)| server.environment(name, value))
    }

    /// The environment of a process that uses this clock.
    pub fn variables(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", library()), ("VCLOCK_FILE", self.offset.path())]
    }

    /// Takes effect when a process next reads the clock.
    pub fn step_forwards(&self, by: Duration) {
        self.set_offset_us(self.offset_us() + micros(by));
    }

    pub fn step_back(&self, by: Duration) {
        self.set_offset_us(self.offset_us() - micros(by));
    }

    fn offset_us(&self) -> i64 {
        let mut bytes = [0; 8];
        self.offset.as_file().read_exact_at(&mut bytes, 0).expect("reading the clock's file");
        i64::from_ne_bytes(bytes)
    }

    fn set_offset_us(&self, offset: i64) {
        self.offset.as_file().write_all_at(&offset.to_ne_bytes(), 0).expect("writing the clock's file");
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("a step of less than 292,000 years")
}

/// The library that replaces the C library's clocks, compiled when it is first needed.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vclock.c");
        let folder = tmp();
        let library = folder.join("vclock.so");
        if modified(&library) <= modified(&source) {
            // Other test processes may do the same now: each compiles for itself, and the last to finish replaces the
            // file.
            let fresh = tempfile::Builder::new().prefix("vclock-").suffix(".so").tempfile_in(&folder).expect("a file");
            let mut compiler = Command::new("cc");
            compiler.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).arg(fresh.path()).arg(&source);
            let output = compiler.output().expect("running the C compiler `cc`");
            assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
            fresh.persist(&library).expect("keeping the library");
        }
        library
    })
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
