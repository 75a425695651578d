//! `fairlock watch`: a live view of locks on the whole screen.
//!
//! One thread asks the servers (`worker`), one reads keys, one waits for signals. Each sends events to the loop below,
//! which alone changes the state (`app`) and draws it (`draw`). So keys and the size of the screen are heeded at once,
//! whatever the servers do.

mod app;
mod args;
mod draw;
mod rates;
mod sparkline;
mod worker;

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, KeyEventKind};
use nix::sys::signal::Signal;
use ratatui::DefaultTerminal;

use app::{App, Wish};
pub(crate) use args::Args;
use worker::Report;

use crate::exit::Failure;
use crate::process::signals;
use crate::progress;
use crate::survey::Survey;
use crate::{connect, warnings};

/// The screen shows seconds.
const TICK: Duration = Duration::from_secs(1);
/// The interval of looks at the locks, and that of looks for new ones: a walk through all keys of the servers.
const LOOK: Duration = Duration::from_secs(1);
const FIND: Duration = Duration::from_secs(5);

enum WatchEvent {
    Input(Input),
    Signal(Signal),
    Report(Report),
    /// The keyboard is gone.
    HungUp,
}

pub(crate) fn watch(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let needs = match (std::io::stdout().is_terminal() && std::io::stdin().is_terminal(), progress::is_dumb()) {
        (true, false) => None,
        (true, true) => Some("a terminal that it can draw on, and TERM is empty or dumb"),
        (false, _) => Some("a terminal"),
    };
    if let Some(needs) = needs {
        let without = "`fairlock status NAME` and `fairlock exporter --once` need none";
        return Err(Failure::own(format!("watch needs {needs}; {without}")));
    }
    let client = connect::client(server)?;
    let places = client.places().map_err(|error| Failure::own(error.to_string()))?;
    let shown = format!("{places:?}");
    let survey = Survey::new(places, &server.prefix, &args.names, FIND);
    // A warning in the middle of the screen would be drawn over.
    warnings::hush();
    // Before any other thread is started, and after the private server, which must not inherit the mask.
    let cannot = |error: &dyn std::fmt::Display| Failure::own(format!("cannot use the terminal: {error}"));
    signals::block().map_err(|error| cannot(&error))?;
    let (send, events) = channel();
    let on_signal = send.clone();
    signals::listen(move |signal| drop(on_signal.send(WatchEvent::Signal(signal)))).map_err(|error| cannot(&error))?;
    let on_report = send.clone();
    let report = move |report| on_report.send(WatchEvent::Report(report)).is_ok();
    let orders = worker::start(survey, client, LOOK, report).map_err(|error| cannot(&error))?;

    let mut terminal = ratatui::try_init().map_err(|error| cannot(&error))?;
    std::thread::spawn(move || read(&send));
    let mut app = App::new(Instant::now(), LOOK);
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| draw::draw(frame, &app, &shown)) {
            break Err(cannot(&error));
        }
        match events.recv_timeout(TICK) {
            Ok(WatchEvent::Input(Input::Key(key))) if key.kind != KeyEventKind::Release => {
                match app.key(key) {
                    Wish::Nothing => {}
                    Wish::Quit => break Ok(0),
                    Wish::Redraw => drop(terminal.clear()),
                    Wish::Stop => match stop() {
                        Ok(anew) => terminal = anew,
                        Err(error) => break Err(cannot(&error)),
                    },
                    // The worker ends with this process.
                    Wish::Order(order) => drop(orders.send(order)),
                }
            }
            Ok(WatchEvent::Report(report)) => app.take(Instant::now(), report),
            Ok(WatchEvent::Signal(signal @ (Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT))) => {
                break Err(Failure::signalled(signal, format!("{signal} ended watch")));
            }
            Ok(WatchEvent::Signal(Signal::SIGTSTP)) => match stop() {
                Ok(anew) => terminal = anew,
                Err(error) => break Err(cannot(&error)),
            },
            Ok(WatchEvent::HungUp) | Err(RecvTimeoutError::Disconnected) => {
                break Err(Failure::own("the terminal is gone"));
            }
            // The next drawing asks for the size of the screen.
            Ok(WatchEvent::Signal(_) | WatchEvent::Input(_)) | Err(RecvTimeoutError::Timeout) => {}
        }
    };
    ratatui::restore();
    ended
}

/// Gives the terminal back to the shell, and takes it again when the shell continues this process.
fn stop() -> std::io::Result<DefaultTerminal> {
    ratatui::restore();
    signals::stop_here(true);
    ratatui::try_init()
}

fn read(send: &Sender<WatchEvent>) {
    loop {
        let event = crossterm::event::read().map_or(WatchEvent::HungUp, WatchEvent::Input);
        let is_last = matches!(event, WatchEvent::HungUp);
        if send.send(event).is_err() || is_last {
            return;
        }
    }
}
