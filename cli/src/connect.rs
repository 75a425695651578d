//! Which server the arguments and the environment name.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use fairlock::operator::LookError;
use fairlock::{Client, ClientBuilder, Credentials, Tls};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::process::descendants;
use crate::text::printable;
use crate::{hidden, local};

/// The variable with the password. There is no option for it: everybody can read the arguments of a process.
const PASSWORD: &str = "FAIRLOCK_PASSWORD";

/// Where the locks are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server [default: REDIS_URL, or 127.0.0.1]
    ///
    /// redis://[USER:PASSWORD@]HOST[:PORT][/DB] or unix:///SOCKET; with rediss instead of redis the connection is
    /// encrypted. In a password, all but letters, digits and -._~ is written as in URLs: %23 for #, %3F for ?, %25 for %,
    /// %40 for @, %3A for :, %2F for /. Sentinels and clusters are explained below.
    ///
    /// A password in it is taken out of the list of processes, but shells keep histories: --password-file, REDIS_URL
    /// and FAIRLOCK_PASSWORD are better places.
    #[arg(long, value_name = "URL", global = true, display_order = 900)]
    pub(crate) redis: Option<String>,
    /// A private server on this machine instead
    ///
    /// This user's own redis-server, which is started if necessary: `fairlock local --help`.
    #[arg(long, global = true, display_order = 901)]
    pub(crate) local: bool,
    /// The prefix of all keys and channels; runs with different prefixes use different locks
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "fairlock",
        global = true,
        hide_short_help = true,
        display_order = 902
    )]
    pub(crate) prefix: String,
    /// Log in as this user [default: the one in the URL]
    #[arg(long, value_name = "NAME", global = true, hide_short_help = true, help_heading = LOGIN)]
    pub(crate) user: Option<String>,
    /// The file with the password
    ///
    /// It is read at each connection, so a password can be changed while jobs run. A password may also be in
    /// FAIRLOCK_PASSWORD. Neither is shown in the list of processes, nor in any message.
    #[arg(long, value_name = "FILE", global = true, hide_short_help = true, help_heading = LOGIN)]
    pub(crate) password_file: Option<PathBuf>,
    /// The command that prints the password
    ///
    /// A shell runs it at each login and every ten minutes, and its first line is the password: for the tokens of
    /// cloud services, which live for fifteen minutes or an hour. A job that runs keeps its lease.
    #[arg(
        long,
        value_name = "COMMAND",
        global = true,
        conflicts_with = "password_file",
        hide_short_help = true,
        help_heading = LOGIN
    )]
    pub(crate) password_command: Option<String>,
    /// Trust only this certificate authority (PEM file)
    #[arg(long, value_name = "FILE", global = true, hide_short_help = true, help_heading = TLS)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Show this certificate to the server (PEM file)
    #[arg(long, value_name = "FILE", global = true, requires = "tls_key", hide_short_help = true, help_heading = TLS)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate of --tls-cert (PEM file)
    #[arg(long, value_name = "FILE", global = true, requires = "tls_cert", hide_short_help = true, help_heading = TLS)]
    pub(crate) tls_key: Option<PathBuf>,
}

/// When four fifths of it are over, the password is asked for again.
const FRESH: Duration = Duration::from_secs(750);

const LOGIN: &str = "Login";
const TLS: &str = "TLS (for URLs that begin with rediss)";

/// At the end of the help of each subcommand that asks a server.
pub(crate) const MORE_SERVERS: &str = "\
Sentinel and Cluster:
  --redis redis+sentinel://HOST[:PORT],…/MASTER[/DB] is the master that these sentinels know by this name. They are \
asked again after every loss of the connection. A login is that of the master and its replicas; if the sentinels have \
one of their own, the URL ends with ?sentinel_user=USER&sentinel_password=PASSWORD.

  --redis redis+cluster://HOST[:PORT],… is a cluster of which these are some nodes. With rediss+sentinel and \
rediss+cluster all connections are encrypted.";

/// The tip for a user who named no server, if none answers at the default address.
const NO_SERVER: &str = "this address is the default: --redis URL or REDIS_URL names a server, and --local needs none";

impl Args {
    /// Whether these arguments mean the locks of the same server, in the same environment.
    pub(crate) fn names_the_same_as(&self, other: &Self) -> bool {
        (&self.redis, self.local, &self.prefix) == (&other.redis, other.local, &other.prefix)
    }

    /// The failure of a subcommand that could not ask the server.
    pub(crate) fn failed(&self, error: impl Into<LookError>) -> Failure {
        let error = error.into();
        let tip = if matches!(error, LookError::Connection(_)) { self.tip() } else { None };
        Failure { tip: tip.map(str::to_owned), ..Failure::own(error.to_string()) }
    }

    /// With the way out for locks of another version of fairlock that the private server keeps: few jobs of one machine
    /// use them, and no tool that deletes their keys may be at hand.
    pub(crate) fn advised(&self, mut failure: Failure) -> Failure {
        if self.local && failure.message.contains("OTHERLAYOUT") && failure.tip.is_none() {
            failure.tip = local::how_to_forget();
        }
        failure
    }

    /// What to do if the server does not answer.
    pub(crate) fn tip(&self) -> Option<&'static str> {
        let named =
            self.local || self.redis.is_some() || std::env::var_os("REDIS_URL").is_some_and(|url| !url.is_empty());
        (!named).then_some(NO_SERVER)
    }
}

/// The server that the arguments and the environment name, as another process can be told of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Server {
    url: String,
    prefix: String,
    user: Option<String>,
    password: Option<String>,
    password_file: Option<PathBuf>,
    password_command: Option<String>,
    tls_ca: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

impl Server {
    /// With `--local` the private server runs when this returns.
    pub(crate) fn find(args: &Args) -> Result<Self, Failure> {
        let (tls_ca, tls_cert, tls_key) = (args.tls_ca.clone(), args.tls_cert.clone(), args.tls_key.clone());
        let (url, prefix) = (url(args)?, args.prefix.clone());
        // The private server knows no users.
        if args.local {
            return Ok(Self { url, prefix, tls_ca, tls_cert, tls_key, ..Self::default() });
        }
        let (user, password) = (args.user.clone(), variable(PASSWORD)?);
        let (password_file, password_command) = (args.password_file.clone(), args.password_command.clone());
        if user.is_some() && password.is_none() && password_file.is_none() && password_command.is_none() {
            let ways = format!("give --password-file or --password-command, or set {PASSWORD}");
            return Err(Failure::own(format!("--user needs a password: {ways}")));
        }
        Ok(Self { url, prefix, user, password, password_file, password_command, tls_ca, tls_cert, tls_key })
    }

    /// A client, not connected yet.
    pub(crate) fn client(&self) -> ClientBuilder {
        let builder = Client::builder().url(&self.url).prefix(&self.prefix);
        let user = self.user();
        let builder = match (&self.password_command, &self.password_file, &self.password) {
            (Some(command), _, _) => {
                let command = command.clone();
                builder
                    .login_with(move || Ok::<_, String>(Credentials::new(&user, printed(&command)?).expires_in(FRESH)))
            }
            (None, Some(file), _) => builder.login_from_file(&user, file),
            (None, None, Some(password)) => builder.login(&user, password),
            (None, None, None) => builder,
        };
        if self.tls_ca.is_none() && self.tls_cert.is_none() {
            return builder;
        }
        let mut tls = Tls::new();
        if let Some(ca) = &self.tls_ca {
            tls = tls.ca_certificate_file(ca);
        }
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.client_certificate_files(cert, key);
        }
        builder.tls(tls)
    }

    /// Its address, without user and password.
    pub(crate) fn place(&self) -> String {
        let places = self.client().places();
        places.map_or_else(|_| String::new(), |places| printable(&format!("{places:?}")))
    }

    /// Whom clients log in as.
    pub(crate) fn user(&self) -> String {
        let in_url = || Client::builder().url(&self.url).user();
        self.user.clone().or_else(in_url).unwrap_or_else(|| "default".to_owned())
    }

    /// The prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "url": self.url, "prefix": self.prefix,
            "user": self.user, "password": self.password, "password_file": self.password_file,
            "password_command": self.password_command,
            "tls_ca": self.tls_ca, "tls_cert": self.tls_cert, "tls_key": self.tls_key,
        })
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        let path = |field: &str| text(field).map(PathBuf::from);
        let (tls_ca, tls_cert, tls_key) = (path("tls_ca"), path("tls_cert"), path("tls_key"));
        let (user, password) = (text("user"), text("password"));
        let (password_file, password_command) = (path("password_file"), text("password_command"));
        let (url, prefix) = (text("url")?, text("prefix")?);
        Some(Self { url, prefix, user, password, password_file, password_command, tls_ca, tls_cert, tls_key })
    }
}

/// The first line that this command prints.
fn printed(command: &str) -> Result<String, String> {
    let output = descendants::output(Command::new("sh").args(["-c", command]).stdin(Stdio::null()));
    let output = output.map_err(|error| format!("the password command cannot be run: {error}"))?;
    let first = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
    match first(&output.stdout) {
        password if output.status.success() && !password.is_empty() => Ok(password),
        _ if output.status.success() => Err("the password command prints nothing".to_owned()),
        _ => Err(format!("the password command fails ({}) {}", output.status, first(&output.stderr))
            .trim_end()
            .to_owned()),
    }
}

/// A client of that server, not connected yet. With `--local` the private server runs when this returns.
pub(crate) fn client(args: &Args) -> Result<ClientBuilder, Failure> {
    Server::find(args).map(|server| server.client())
}

/// The same for looking on. None if there is nothing to see: with `--local`, while the private server does not run.
pub(crate) fn running(args: &Args) -> Result<Option<ClientBuilder>, Failure> {
    if args.local && !local::runs()? { Ok(None) } else { client(args).map(Some) }
}

fn url(server: &Args) -> Result<String, Failure> {
    if server.local {
        return local::share_or_start().map(|folder| folder.url());
    }
    let url = match &server.redis {
        Some(url) => hidden::given(url),
        None => variable("REDIS_URL")?.unwrap_or_else(|| "redis://127.0.0.1/".to_owned()),
    };
    match without_scheme(&url) {
        Some(meant) => Err(Failure::own(format!("{url} is no URL")).with_tip(format!("did you mean {meant}?"))),
        None => Ok(url),
    }
}

/// The URL that a host with its port, or a path, is meant for. A text that may have a password is not told again.
fn without_scheme(url: &str) -> Option<String> {
    let is_host = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || ".-:[]/_".contains(c));
    let meant = match url {
        "" => return None,
        _ if url.contains("://") || !is_host(url) => return None,
        path if path.starts_with('/') => format!("unix://{path}"),
        path if path.starts_with("unix:") => format!("unix://{}", &path["unix:".len()..]),
        host if host.parse::<Ipv6Addr>().is_ok() => format!("redis://[{host}]"),
        host => format!("redis://{host}"),
    };
    // No advice that would be refused in its turn.
    Client::builder().url(&meant).places().is_ok().then_some(meant)
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var_os(name).map(OsString::into_string) {
        Some(Ok(value)) if !value.is_empty() => Ok(Some(value)),
        // Its value may be a password.
        Some(Err(_)) => Err(Failure::own(format!("{name} is not valid UTF-8"))),
        _ => Ok(None),
    }
}
