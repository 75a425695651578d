//! Logins of which the program is asked, because a password may be good for some minutes only.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Time;
use crate::fork::OfProcess;
use crate::mutex::lock;
use crate::thread::{self, caught};

/// A user and a password, as [`ClientBuilder::login_with`](crate::ClientBuilder::login_with) takes them from its
/// callback.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use fairlock::Credentials;
///
/// let token = "a token that the cloud signed";
/// let credentials = Credentials::new("app", token).expires_in(Duration::from_secs(15 * 60));
/// # assert!(!format!("{credentials:?}").contains(token));
/// ```
#[derive(Clone)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) lifetime: Option<Duration>,
}

impl Credentials {
    /// A password that stays good. An empty user is the server's `default`.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        let user = Some(user.into()).filter(|user| !user.is_empty());
        Self { user: user.unwrap_or_else(|| "default".to_owned()), password: password.into(), lifetime: None }
    }

    /// How long the password is good from now on. The client asks for the next one when four fifths of this are over,
    /// and logs in with it on the connections that it has.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// When the next ones have to be asked for, if these were given at this time.
    pub(crate) fn renewed_at(&self, given: Time) -> Option<Time> {
        Some(given + (self.lifetime? / 5 * 4).max(LOGIN_PAUSE))
    }
}

/// The shortest time between two questions for credentials of the same connection.
pub(crate) const LOGIN_PAUSE: Duration = Duration::from_secs(1);

impl fmt::Debug for Credentials {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// How a client logs in at the servers of its locks.
#[derive(Clone)]
pub(crate) enum Login {
    Known(Credentials),
    Asked(LoginSource),
}

impl Login {
    /// Blocks at most until the deadline.
    pub(crate) fn credentials(&self, deadline: Time) -> LoginAnswer {
        match self {
            Login::Known(credentials) => Ok(credentials.clone()),
            Login::Asked(source) => source.ask(deadline),
        }
    }
}

pub(crate) type LoginAnswer = Result<Credentials, Arc<str>>;
type Ask = dyn Fn() -> Result<Credentials, String> + Send + Sync;

/// Where a client asks for its login.
#[derive(Clone)]
pub(crate) struct LoginSource(Arc<Inner>);

struct Inner {
    ask: Box<Ask>,
    asking: OfProcess<Asking>,
}

#[derive(Default)]
struct Asking {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    /// The program is asked, and has not answered yet.
    asked: bool,
    answers: u64,
    last: Option<LoginAnswer>,
}

impl LoginSource {
    pub(crate) fn new(ask: impl Fn() -> Result<Credentials, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { ask: Box::new(ask), asking: OfProcess::default() }))
    }

    /// A password in a file, which may change.
    pub(crate) fn of_file(user: String, path: PathBuf) -> Self {
        Self::new(move || match std::fs::read_to_string(&path) {
            Ok(password) => Ok(Credentials::new(user.clone(), password.trim_end_matches(['\r', '\n']))),
            Err(error) => Err(format!("the password file {} cannot be read: {error}", path.display())),
        })
    }

    /// Asks, and waits until the deadline at the latest. Code of the program may never return: it has a thread of its
    /// own, and is not asked again before it has answered. Whoever asks meanwhile gets the same answer.
    pub(crate) fn ask(&self, deadline: Time) -> LoginAnswer {
        let Asking { state, answered } = self.0.asking.get();
        let mut state = lock(state);
        let before = state.answers;
        if !state.asked {
            let inner = self.0.clone();
            thread::spawn("fairlock-login", move || inner.answer())
                .map_err(|error| format!("no thread to ask for the login on: {error}"))?;
            state.asked = true;
        }
        let left = deadline.since(Time::now());
        let is_open = |state: &mut State| state.answers == before;
        let (state, _) = answered.wait_timeout_while(state, left, is_open).unwrap_or_else(PoisonError::into_inner);
        match &state.last {
            Some(answer) if state.answers > before => answer.clone(),
            _ => Err("the program was asked for its login and has not answered".into()),
        }
    }
}

impl Inner {
    fn answer(&self) {
        let answer = caught(&self.ask).map_err(|text| format!("the program panicked: {text}"));
        let answer = answer.and_then(|answer| answer).map_err(Arc::from);
        let Asking { state, answered } = self.asking.get();
        let mut state = lock(state);
        (state.asked, state.answers, state.last) = (false, state.answers + 1, Some(answer));
        answered.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_login_of_any_lifetime_has_a_time_at_which_it_is_renewed() {
        let given = Time::now();
        let renewed_after = |lifetime| {
            let renewed_at = Credentials::new("u", "p").expires_in(lifetime).renewed_at(given);
            renewed_at.unwrap().since(given)
        };
        assert_eq!(renewed_after(Duration::from_secs(900)), Duration::from_secs(720));
        assert_eq!(renewed_after(Duration::ZERO), LOGIN_PAUSE);
        assert_eq!(renewed_after(Duration::MAX), Time(u64::MAX).since(given));
        assert_eq!(Credentials::new("u", "p").renewed_at(given), None);
    }

    #[test]
    fn a_program_that_does_not_answer_is_not_asked_again_until_it_does() {
        let asked = Arc::new(AtomicU32::new(0));
        let (go_on, waits) = channel();
        let (count, waits) = (asked.clone(), Mutex::new(waits));
        let source = LoginSource::new(move || {
            let times = count.fetch_add(1, Ordering::SeqCst) + 1;
            lock(&waits).recv().unwrap();
            Ok(Credentials::new("u", times.to_string()))
        });
        for _ in 0..2 {
            let hung = source.ask(Time::now() + Duration::from_millis(20)).unwrap_err();
            assert!(hung.contains("has not answered"), "{hung}");
        }
        let both =
            [source.clone(), source.clone()].map(|source| std::thread::spawn(move || source.ask(Time::now() + LONG)));
        // Each may have come after an answer: then it is asked for itself.
        (0..3).for_each(|_| go_on.send(()).unwrap());
        both.into_iter().for_each(|one| assert!(one.join().unwrap().is_ok()));
        assert!(asked.load(Ordering::SeqCst) <= 3);
    }

    /// A value that panics once more when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("seen in tests");
        }
    }

    #[test]
    fn a_program_is_asked_again_whatever_it_panics_with() {
        let source = LoginSource::new(|| std::panic::panic_any(Bomb));
        for _ in 0..2 {
            let error = source.ask(Time::now() + Duration::from_secs(5)).unwrap_err();
            assert_eq!(&*error, "the program panicked: without a text");
        }
    }

    #[test]
    fn a_program_that_panics_or_refuses_is_told_apart_from_one_that_hangs() {
        let ask = |source: LoginSource| source.ask(Time::now() + LONG).unwrap_err();
        assert_eq!(&*ask(LoginSource::new(|| Err("no token".to_owned()))), "no token");
        assert_eq!(&*ask(LoginSource::new(|| panic!("seen in tests"))), "the program panicked: seen in tests");
        assert!(
            ask(LoginSource::of_file("u".into(), "/nonexistent".into()))
                .starts_with("the password file /nonexistent cannot be read: ")
        );
    }
}
