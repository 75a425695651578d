//! Clients.

use fairlock::{ClientBuilder, Credentials, LockOptions, Tls};
use pyo3::prelude::*;

use crate::convert::duration;
use crate::errors::{Raise as _, bare};
use crate::lock::Lock;
use crate::operation::{Operation, exits};

/// Settings of a client: a dict with these keys, where None is the default.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    url: Option<String>,
    sentinels: Option<Vec<String>>,
    master: Option<String>,
    nodes: Option<Vec<String>>,
    user: Option<String>,
    password: Option<String>,
    password_file: Option<String>,
    /// Gives user, password, and for how many seconds they are good.
    credentials: Option<Py<PyAny>>,
    tls: bool,
    ca_file: Option<String>,
    certificate_file: Option<String>,
    key_file: Option<String>,
    prefix: Option<String>,
    label: Option<String>,
    environment: bool,
}

impl Settings {
    fn builder(self) -> ClientBuilder {
        let mut builder = if self.environment { ClientBuilder::from_env() } else { ClientBuilder::default() };
        if let Some(url) = &self.url {
            builder = builder.url(url);
        } else if let (Some(sentinels), Some(master)) = (&self.sentinels, &self.master) {
            builder = builder.sentinel(sentinels, master);
        } else if let Some(nodes) = &self.nodes {
            builder = builder.cluster(nodes);
        }
        let user = self.user.as_deref().unwrap_or("default");
        if let Some(ask) = self.credentials {
            builder = builder.login_with(move || credentials(&ask));
        } else if let Some(path) = &self.password_file {
            builder = builder.login_from_file(user, path);
        } else if let Some(password) = &self.password {
            builder = builder.login(user, password);
        }
        if self.tls || self.ca_file.is_some() || self.certificate_file.is_some() {
            let mut tls = Tls::new();
            if let Some(path) = &self.ca_file {
                tls = tls.ca_certificate_file(path);
            }
            if let (Some(path), Some(key)) = (&self.certificate_file, &self.key_file) {
                tls = tls.client_certificate_files(path, key);
            }
            builder = builder.tls(tls);
        }
        if let Some(prefix) = &self.prefix {
            builder = builder.prefix(prefix);
        }
        if let Some(label) = &self.label {
            builder = builder.label(label);
        }
        builder
    }
}

/// Asks the program for its login, on a thread of the library.
fn credentials(ask: &Py<PyAny>) -> Result<Credentials, String> {
    let answer = Python::try_attach(|py| {
        let (user, password, seconds): (Option<String>, String, Option<f64>) = ask.call0(py)?.extract(py)?;
        let credentials = Credentials::new(user.unwrap_or_default(), password);
        match seconds {
            Some(seconds) => Ok(credentials.expires_in(duration("the life of the password", seconds)?)),
            None => Ok(credentials),
        }
    });
    answer.ok_or("the interpreter ends")?.map_err(|error: PyErr| error.to_string())
}

/// Options of a lock: a dict with these keys, where None is the default. Times are seconds.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    slots: Option<u32>,
    lease: Option<f64>,
    renew_every: Option<f64>,
    manual_renewal: bool,
    notice: Option<f64>,
    liveness: Option<f64>,
    buffer: Option<f64>,
    max_hold: Option<f64>,
    confirm_grants: bool,
    max_waiting: Option<u32>,
    owner: Option<String>,
    label: Option<String>,
    replicas: Option<u32>,
}

impl Options {
    fn of_library(self) -> PyResult<LockOptions> {
        let mut options = LockOptions::new();
        type Set = fn(LockOptions, std::time::Duration) -> LockOptions;
        let times: [(&str, Option<f64>, Set); 6] = [
            ("lease", self.lease, LockOptions::lease),
            ("renew_every", self.renew_every, LockOptions::renew_every),
            ("notice", self.notice, LockOptions::notice),
            ("liveness", self.liveness, LockOptions::liveness),
            ("buffer", self.buffer, LockOptions::buffer),
            ("max_hold", self.max_hold, LockOptions::max_hold),
        ];
        for (name, seconds, set) in times {
            if let Some(seconds) = seconds {
                options = set(options, duration(name, seconds)?);
            }
        }
        if let Some(slots) = self.slots {
            options = options.slots(slots);
        }
        if self.manual_renewal {
            options = options.manual_renewal();
        }
        if self.confirm_grants {
            options = options.confirm_grants();
        }
        if let Some(most) = self.max_waiting {
            options = options.max_waiting(most);
        }
        if let Some(owner) = self.owner {
            options = options.owner(owner);
        }
        if let Some(label) = self.label {
            options = options.label(label);
        }
        if let Some(replicas) = self.replicas {
            options = options.replicas(replicas);
        }
        Ok(options)
    }
}

#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct Client {
    client: fairlock::Client,
}

/// Nobody would close it.
fn check_not_at_the_end(py: Python<'_>) -> PyResult<()> {
    if exits() {
        return Err(bare(
            py,
            "Closed",
            "the interpreter ends: fairlock has released everything and closed its clients, and makes no new ones. To use \
             a lock before that, register a handler of atexit after the import of fairlock",
        ));
    }
    Ok(())
}

/// Connects: an operation that makes a client.
#[pyfunction]
pub(crate) fn connect(py: Python<'_>, settings: Settings) -> PyResult<Operation> {
    check_not_at_the_end(py)?;
    Ok(Operation::new(settings.builder().connect(), |py, connected| match connected {
        Ok(client) => Ok(Py::new(py, Client { client })?.into_any()),
        Err(error) => Err(error.raise(py)),
    }))
}

/// A client that connects when it is first used.
#[pyfunction]
pub(crate) fn connect_lazy(py: Python<'_>, settings: Settings) -> PyResult<Client> {
    check_not_at_the_end(py)?;
    match settings.builder().connect_lazy() {
        Ok(client) => Ok(Client { client }),
        Err(error) => Err(error.raise(py)),
    }
}

#[pymethods]
impl Client {
    fn lock(&self, py: Python<'_>, name: &str, options: Options) -> PyResult<Lock> {
        let lock = self.client.lock_with(name, options.of_library()?);
        Ok(Lock::new(lock.map_err(|error| error.raise(py))?))
    }

    /// What readers of a read-write lock take.
    fn reader(&self, py: Python<'_>, name: &str, options: Options) -> PyResult<Lock> {
        let lock = self.client.rw_lock_with(name, options.of_library()?).map_err(|error| error.raise(py))?;
        Ok(Lock::new(lock.reader().clone()))
    }

    /// What its writers take.
    fn writer(&self, py: Python<'_>, name: &str, options: Options) -> PyResult<Lock> {
        let lock = self.client.rw_lock_with(name, options.of_library()?).map_err(|error| error.raise(py))?;
        Ok(Lock::new(lock.writer().clone()))
    }

    /// Gives everything back, and ends the client.
    fn close(&self) -> Operation {
        Operation::new(self.client.close(), |py, ()| Ok(py.None()))
    }
}
