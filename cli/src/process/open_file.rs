//! Open files that processes share. No process is told when another one closes a file, but a lock on an open file is gone
//! when the last copy of it is closed, in whichever process, and however that ends.
//!
//! Several stand-ins may watch one file that their scripts have opened each for itself. So each locks one byte of its
//! own, and waits for no other. That byte need not be there.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::{descriptors, table};

/// A file that is watched: opened once more, so that its lock and that of the other conflict.
pub(crate) struct OpenFile {
    again: File,
    watched: Watched,
}

enum Watched {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Byte(byte::Byte),
    /// Not locked yet: other kernels lock whole files only, and another process that watches this one may have it locked.
    Whole(OwnedFd),
}

impl OpenFile {
    /// Watches the file of which this is a copy.
    pub(crate) fn new(copy: OwnedFd) -> io::Result<Self> {
        let path = format!("/dev/fd/{}", copy.as_raw_fd());
        let again = File::open(&path).or_else(|_| File::options().write(true).open(&path))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Ok(byte) = byte::Byte::lock(&copy) {
            return Ok(Self { again, watched: Watched::Byte(byte) });
        }
        Ok(Self { again, watched: Watched::Whole(copy) })
    }

    /// Waits until all other copies are closed.
    pub(crate) fn await_close(self) {
        match self.watched {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Watched::Byte(byte) => byte.await_unlocked(&self.again),
            Watched::Whole(copy) => {
                let _ = retry_on_intr(|| flock(&copy, FlockOperation::LockExclusive));
                drop(copy);
                let _ = retry_on_intr(|| flock(&self.again, FlockOperation::LockExclusive));
            }
        }
    }
}

/// The processes that watch the file which is open here by this number, and that it keeps waiting.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn watchers(descriptor: RawFd) -> Vec<i32> {
    byte::of(descriptor).iter().map(byte::Byte::owner).collect()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn watchers(_: RawFd) -> Vec<i32> {
    Vec::new()
}

/// Whether no other process has this open file, by any number. False where it cannot be known.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn is_open_here_only(descriptor: RawFd) -> bool {
    let Some(parent) = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) else { return false };
    let Some((copy, byte)) = descriptors::copy(descriptor).ok().and_then(|copy| {
        let byte = byte::Byte::lock(&copy).ok()?;
        Some((copy, byte))
    }) else {
        return false;
    };
    // The parent of another user does not show what it has open.
    let only_here = table::is_shown()
        && byte.is_open_in(parent) == Some(false)
        && table::numbers().all(|pid| pid == table::own_pid() || byte.is_open_in(pid) != Some(true));
    let _ = byte.unlock(&copy);
    only_here
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn is_open_here_only(_: RawFd) -> bool {
    false
}

/// For this process the file which is open here by this number is closed from now on, although it is not.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn let_go(watcher: i32, descriptor: RawFd) -> io::Result<()> {
    let bytes = byte::of(descriptor);
    let mut of_watcher = bytes.iter().filter(|byte| byte.owner() == watcher).peekable();
    if of_watcher.peek().is_some() {
        let copy = descriptors::copy(descriptor)?;
        of_watcher.try_for_each(|byte| byte.unlock(&copy))?;
    }
    Ok(())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn let_go(_: i32, _: RawFd) -> io::Result<()> {
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod byte {
    use std::fs::File;
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    use std::io;
    use std::os::fd::{AsFd, RawFd};
    use std::path::Path;
    use std::time::Duration;

    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc::{self, F_RDLCK, F_UNLCK, F_WRLCK};
    use rustix::fs::{OFlags, fcntl_getfl};

    use crate::process::table::own_pid;

    /// The interval of looks at a lock that cannot be awaited.
    const LOOK: Duration = Duration::from_millis(100);
    /// The place of a byte modulo this is the number of the process that locks it; Linux gives none that is higher.
    const NUMBERS: i64 = 1 << 22;

    /// A byte that is locked. The lock belongs to the open file, not to the process.
    pub(super) struct Byte {
        at: i64,
        kind: libc::c_int,
    }

    /// All bytes that are locked on the file which is open here by this number.
    pub(super) fn of(descriptor: RawFd) -> Vec<Byte> {
        locked(Path::new(&format!("/proc/self/fdinfo/{descriptor}")))
    }

    /// The same of a file of which this is the page in /proc. It shows the locks of this open file, and not those of the
    /// same file that was opened once more.
    fn locked(page: &Path) -> Vec<Byte> {
        let about = std::fs::read_to_string(page).unwrap_or_default();
        // `lock: 1: OFDLCK ADVISORY WRITE -1 fe:01:4711 FIRST LAST`
        let locks = about.lines().filter(|line| line.starts_with("lock:") && line.contains(" OFDLCK "));
        let first = |line: &str| line.split_whitespace().rev().nth(1)?.parse().ok();
        locks.filter_map(|line| Some(Byte { at: first(line)?, kind: F_WRLCK })).collect()
    }

    impl Byte {
        pub(super) fn lock(file: impl AsFd) -> io::Result<Self> {
            // 40 bits, so that the place is a positive number.
            let random = (RandomState::new().build_hasher().finish() >> 24).cast_signed();
            let is_for_readers = fcntl_getfl(&file)? & OFlags::ACCMODE == OFlags::RDONLY;
            let kind = if is_for_readers { F_RDLCK } else { F_WRLCK };
            let byte = Self { at: random * NUMBERS + i64::from(own_pid()), kind };
            fcntl(&file, FcntlArg::F_OFD_SETLK(&byte.with(kind)))?;
            Ok(byte)
        }

        /// Whether that process has the open file with this lock; None if it does not show what it has open.
        pub(super) fn is_open_in(&self, pid: i32) -> Option<bool> {
            let pages = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
            Some(pages.flatten().any(|page| locked(&page.path()).iter().any(|byte| byte.at == self.at)))
        }

        /// The process that has locked it.
        pub(super) fn owner(&self) -> i32 {
            i32::try_from(self.at % NUMBERS).unwrap_or_default()
        }

        pub(super) fn unlock(&self, file: impl AsFd) -> io::Result<()> {
            fcntl(file, FcntlArg::F_OFD_SETLK(&self.with(F_UNLCK)))?;
            Ok(())
        }

        /// Returns when the lock is gone. An error is no end: it is asked again.
        pub(super) fn await_unlocked(&self, again: &File) {
            let may_read = fcntl_getfl(again).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::RDONLY);
            let own = self.with(if may_read { F_RDLCK } else { F_WRLCK });
            loop {
                // To wait for a lock of readers takes a file that is open for writing: it may be one that nobody may
                // write, and a program that somebody has open for writing cannot be executed.
                if self.kind == F_WRLCK {
                    match fcntl(again, FcntlArg::F_OFD_SETLKW(&own)) {
                        Ok(_) => return,
                        Err(Errno::EINTR) => continue,
                        Err(_) => {}
                    }
                }
                let mut found = self.with(F_WRLCK);
                let looked = fcntl(again, FcntlArg::F_OFD_GETLK(&mut found));
                if looked.is_ok() && libc::c_int::from(found.l_type) == F_UNLCK {
                    return;
                }
                std::thread::sleep(LOOK);
            }
        }

        fn with(&self, kind: libc::c_int) -> libc::flock {
            libc::flock {
                l_type: kind as libc::c_short,
                l_whence: libc::SEEK_SET as libc::c_short,
                // Where a file cannot be so long, of the number of the process alone.
                l_start: libc::off_t::try_from(self.at).unwrap_or_else(|_| self.owner() as libc::off_t),
                l_len: 1,
                l_pid: 0,
            }
        }
    }
}
