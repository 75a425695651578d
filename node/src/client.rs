//! Clients.

use std::convert::Infallible;
use std::sync::mpsc::channel;
use std::time::Duration;

use fairlock::{ClientBuilder, Credentials, LockOptions, Tls};
use napi::Either;
use napi::bindgen_prelude::{Function, Result, Status};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

use crate::convert::{Given as _, duration};
use crate::errors::{Failure, bare};
use crate::lock::Lock;
use crate::operation::Operation;

/// Settings of a client: what is left out is the default.
#[napi(object, object_to_js = false)]
pub struct Settings {
    pub url: Option<String>,
    pub sentinels: Option<Vec<String>>,
    pub master: Option<String>,
    pub nodes: Option<Vec<String>>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub password_file: Option<String>,
    pub tls: Option<bool>,
    pub ca_file: Option<String>,
    pub certificate_file: Option<String>,
    pub key_file: Option<String>,
    pub prefix: Option<String>,
    pub label: Option<String>,
    pub environment: Option<bool>,
}

impl Settings {
    fn builder(self, ask: Option<Ask>) -> ClientBuilder {
        let mut builder =
            if self.environment == Some(true) { ClientBuilder::from_env() } else { ClientBuilder::default() };
        if let Some(url) = &self.url {
            builder = builder.url(url);
        } else if let (Some(sentinels), Some(master)) = (&self.sentinels, &self.master) {
            builder = builder.sentinel(sentinels, master);
        } else if let Some(nodes) = &self.nodes {
            builder = builder.cluster(nodes);
        }
        let user = self.user.as_deref().unwrap_or("default");
        if let Some(ask) = ask {
            builder = builder.login_with(move || credentials(&ask));
        } else if let Some(path) = &self.password_file {
            builder = builder.login_from_file(user, path);
        } else if let Some(password) = &self.password {
            builder = builder.login(user, password);
        }
        if self.tls == Some(true) || self.ca_file.is_some() || self.certificate_file.is_some() {
            let tls = Tls::new().given(self.ca_file, Tls::ca_certificate_file);
            let own = self.certificate_file.zip(self.key_file);
            builder = builder.tls(tls.given(own, |tls, (path, key)| tls.client_certificate_files(path, key)));
        }
        builder.given(self.prefix.as_deref(), ClientBuilder::prefix).given(self.label.as_deref(), ClientBuilder::label)
    }
}

/// What the program answers: a login, or why there is none.
#[napi(object, object_to_js = false)]
pub struct Login {
    pub error: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub expires_in: Option<f64>,
}

type Answer = std::sync::mpsc::Sender<Login>;
type Ask = ThreadsafeFunction<Answered, (), Answered, Status, false, true>;

/// Gives the answer of the program to the thread that has asked.
#[napi]
pub struct Answered {
    answer: Answer,
}

#[napi]
impl Answered {
    #[napi]
    pub fn with(&self, login: Login) {
        // The thread waits no more if it took too long.
        let _ = self.answer.send(login);
    }
}

/// How long a program may take for its answer. A thread waits for it that the library has for this.
const ANSWER: Duration = Duration::from_secs(30);

/// Asks the program for its login, on a thread of the library.
fn credentials(ask: &Ask) -> std::result::Result<Credentials, String> {
    let (answer, answered) = channel();
    let status = ask.call(Answered { answer }, ThreadsafeFunctionCallMode::NonBlocking);
    if status != Status::Ok {
        return Err("the event loop that would be asked has ended".to_owned());
    }
    let login = answered.recv_timeout(ANSWER).map_err(|_| format!("credentials() has not answered for {ANSWER:?}"))?;
    if let Some(error) = login.error {
        return Err(error);
    }
    let credentials = Credentials::new(login.user.unwrap_or_default(), login.password.unwrap_or_default());
    match login.expires_in {
        Some(expires_in) => duration("expiresIn", expires_in)
            .map(|life| credentials.expires_in(life))
            .map_err(|failure| failure.message),
        None => Ok(credentials),
    }
}

/// Options of a lock: what is left out is the default.
#[napi(object, object_to_js = false)]
pub struct Options {
    pub slots: Option<u32>,
    pub lease: Option<f64>,
    pub renew_every: Option<f64>,
    pub manual_renewal: Option<bool>,
    pub notice: Option<f64>,
    pub liveness: Option<f64>,
    pub buffer: Option<f64>,
    pub max_hold: Option<f64>,
    pub confirm_grants: Option<bool>,
    pub max_waiting: Option<u32>,
    pub owner: Option<String>,
    pub label: Option<String>,
    pub replicas: Option<u32>,
}

impl Options {
    fn of_library(self) -> std::result::Result<LockOptions, Failure> {
        let time = |name, ms: Option<f64>| ms.map(|ms| duration(name, ms)).transpose();
        Ok(LockOptions::new()
            .given(time("lease", self.lease)?, LockOptions::lease)
            .given(time("renewEvery", self.renew_every)?, LockOptions::renew_every)
            .given(time("notice", self.notice)?, LockOptions::notice)
            .given(time("liveness", self.liveness)?, LockOptions::liveness)
            .given(time("buffer", self.buffer)?, LockOptions::buffer)
            .given(time("maxHold", self.max_hold)?, LockOptions::max_hold)
            .given(self.slots, LockOptions::slots)
            .given(self.manual_renewal.filter(|on| *on), |options, _| options.manual_renewal())
            .given(self.confirm_grants.filter(|on| *on), |options, _| options.confirm_grants())
            .given(self.max_waiting, LockOptions::max_waiting)
            .given(self.owner, LockOptions::owner)
            .given(self.label, LockOptions::label)
            .given(self.replicas, LockOptions::replicas))
    }
}

#[napi]
pub struct Client {
    client: fairlock::Client,
}

type Or<T> = Either<T, Failure>;

pub(crate) fn or<T, E: Into<Failure>>(outcome: std::result::Result<T, E>) -> Or<T> {
    match outcome {
        Ok(value) => Either::A(value),
        Err(error) => Either::B(error.into()),
    }
}

fn asked(ask: Option<Function<'_, Answered, ()>>) -> Result<Option<Ask>> {
    ask.map(|ask| ask.build_threadsafe_function().weak::<true>().build_callback(|call| Ok(call.value))).transpose()
}

/// Connects: an operation that makes a client.
#[napi]
pub fn connect(settings: Settings, ask: Option<Function<'_, Answered, ()>>) -> Result<Operation> {
    Ok(Operation::new(settings.builder(asked(ask)?).connect(), |client| Client { client }))
}

/// A client that connects when it is first used.
#[napi]
pub fn connect_lazy(settings: Settings, ask: Option<Function<'_, Answered, ()>>) -> Result<Or<Client>> {
    Ok(or(settings.builder(asked(ask)?).connect_lazy().map(|client| Client { client })))
}

#[napi]
impl Client {
    #[napi]
    pub fn lock(&self, name: String, options: Options) -> Or<Lock> {
        or(options.of_library().and_then(|options| Ok(Lock::new(self.client.lock_with(&name, options)?))))
    }

    /// What readers of a read-write lock take.
    #[napi]
    pub fn reader(&self, name: String, options: Options) -> Or<Lock> {
        let lock = options.of_library().and_then(|options| Ok(self.client.rw_lock_with(&name, options)?));
        or(lock.map(|lock| Lock::new(lock.reader().clone())))
    }

    /// What its writers take.
    #[napi]
    pub fn writer(&self, name: String, options: Options) -> Or<Lock> {
        let lock = options.of_library().and_then(|options| Ok(self.client.rw_lock_with(&name, options)?));
        or(lock.map(|lock| Lock::new(lock.writer().clone())))
    }

    /// Gives everything back, and ends the client.
    #[napi]
    pub fn close(&self) -> Operation {
        let closing = self.client.close();
        let closed = async move {
            closing.await;
            Ok::<_, Infallible>(())
        };
        Operation::new(closed, |()| ())
    }

    /// The same where the process ends, and nothing can be awaited. A server that does not answer delays it by a second.
    #[napi]
    pub fn close_now(&self) {
        self.client.close().blocking();
    }
}

/// For what is asked of a client that is not there.
pub(crate) fn closed(message: &str) -> Failure {
    bare("Closed", message)
}
