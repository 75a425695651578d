//! Scripts that share a lock file, as most scripts do: each ends its own hold and no other.

use super::Script;
use crate::shared::{Redis, Signal, eventually};

/// How many hold the lock.
fn await_holders(redis: &Redis, name: &str, wanted: usize) {
    let held = || redis.state(name)["holders"].as_array().unwrap().len();
    eventually("so many hold it", || (held() == wanted).then_some(()));
}

/// However the file is open, and also if it is a folder.
#[test]
fn a_slot_is_given_back_when_its_script_ends_although_another_one_goes_on() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("lock");
    std::fs::write(&file, "").unwrap();
    let (file, folder) = (file.display(), folder.path().display());
    for (open, options) in [
        (format!("9>'{file}'"), "--slots 3"),
        (format!("9>>'{file}'"), "-s"),
        (format!("9<>'{file}'"), "--slots 3"),
        (format!("9<'{file}'"), "--slots 3"),
        (format!("9<'{folder}'"), "-s"),
    ] {
        let text = format!("exec {open}; $F hold gpu --fd 9 {options} || exit; step held");
        let [long, killed, short] = [(); 3].map(|()| {
            let script = Script::start(&redis, &text);
            assert_eq!(script.process.line(), "held", "{open}");
            script
        });
        short.step();
        await_holders(&redis, "gpu", 2);
        killed.process.signal(Signal::KILL);
        await_holders(&redis, "gpu", 1);
        // What is left is the long one's, which works on.
        long.step();
        await_holders(&redis, "gpu", 0);
    }
}
