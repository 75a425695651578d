//! The judge of a replay: it tells the driver what to do, hears what the client asks, and checks each request.

pub mod answers;

use std::{
    collections::{HashSet, VecDeque},
    fmt::Display,
    io::{BufRead as _, BufReader, Write as _},
    process::ChildStdin,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use testkit::{Child, RedisServer, SOON};

use super::{
    complaint::{Complaint, Verdict, must},
    ledger::{Ledger, Terms},
    message::shown,
    referee::{Asked, Heard, Scripts, listen},
};

/// How many other requests may come before the one that a scene waits for.
pub const OTHERS: usize = 50;

pub struct Judge<'a> {
    pub ledger: Ledger,
    pub epoch: u64,
    pub keep: Duration,
    /// Grants have the flag 2.
    pub by_hdel: bool,
    stamp: u64,
    server: &'a RedisServer,
    driver: Child,
    input: Option<ChildStdin>,
    heard: Receiver<Heard>,
    asked: VecDeque<Asked>,
    said: VecDeque<Vec<String>>,
    tries: HashSet<String>,
    /// Requests that are not answered for now.
    pub silent: bool,
    /// Of the server: see `listen`.
    pub gate: Arc<Mutex<()>>,
    start: Instant,
    exchange: Vec<String>,
    /// The last request is never answered.
    ignored: bool,
}

impl<'a> Judge<'a> {
    /// Starts the driver, which says what its client can do.
    pub fn start(
        command: &str,
        server: &'a RedisServer,
        scripts: &Arc<Scripts>,
        lease: Duration,
        most: u16,
    ) -> Verdict<Judge<'a>> {
        let ((hear, heard), gate) = (channel(), Arc::default());
        let url = listen(server, scripts, &gate, hear.clone());
        let (driver, input, output) = Child::program(command);
        let input = Some(input);
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map(Heard::Said).chain([Heard::Ended]).try_for_each(|heard| hear.send(heard))
        });
        // The notice is long enough for a client whose thread tells of a loss late, on a busy machine.
        let [lease, notice] = [lease, lease / 4].map(|span| span.as_micros() as u64);
        let [liveness, buffer] = [9_000_000, 1_000_000];
        let terms = Terms { prefix: "rep", lock: "lock", lease, liveness, buffer, notice, most, can: HashSet::new() };
        let (asked, said, tries, exchange) = Default::default();
        let (epoch, stamp) = (1_700_000_000_000_000, 1_700_000_000_000_001);
        let (ledger, keep, start) = (Ledger::new(terms), Duration::from_secs(30), Instant::now());
        let (silent, by_hdel, ignored) = Default::default();
        let mut judge = Judge {
            ledger,
            epoch,
            keep,
            by_hdel,
            stamp,
            server,
            driver,
            input,
            heard,
            asked,
            said,
            tries,
            silent,
            gate,
            start,
            exchange,
            ignored,
        };
        judge.tell(&format!("open {url} rep lock {lease} {liveness} {buffer} {notice} {most}"));
        let ready = judge.next_line("ready")?;
        judge.ledger.terms.can = ready.into_iter().skip(1).collect();
        Ok(judge)
    }

    /// A line of the exchange, with the seconds since the beginning of the scene.
    fn note(&mut self, line: impl Display) {
        self.exchange.push(format!("{:7.3} {line}", self.start.elapsed().as_secs_f64()));
    }

    pub fn tell(&mut self, line: &str) {
        self.note(format_args!("driver ← {line}"));
        self.tries.extend(line.strip_prefix("try ").map(str::to_owned));
        // A driver that has ended is noticed when it does not answer.
        let _ = self.input.as_mut().map(|input| writeln!(input, "{line}"));
    }

    /// The next line about this waiter.
    pub fn next_line(&mut self, about: &str) -> Verdict<Vec<String>> {
        let start = Instant::now();
        loop {
            let position = self.said.iter().position(|line| line.iter().take(2).any(|word| word == about));
            if let Some(line) = position.and_then(|at| self.said.remove(at)) {
                return Ok(line);
            }
            while !self.silent
                && let Some(asked) = self.asked.pop_front()
            {
                self.as_before(&asked);
            }
            if !self.hear(start)? {
                return Err(self.driver_failed(&format!("it says nothing about {about}")));
            }
        }
    }

    /// The driver says this of the waiter next, apart from its ticket.
    pub fn says(&mut self, word: &str, waiter: &str, rule: &'static str) -> Verdict<Vec<String>> {
        loop {
            let line = self.next_line(waiter)?;
            if line[0] == "queued" && word != "queued" {
                let ticket = self.ledger.acquires.values().any(|acquire| line[2] == acquire.ticket.to_string());
                must(ticket, "the `ticket` is its place", || format!("the driver says {line:?}"))?;
                continue;
            }
            let found = format!("the driver says \"{}\", and not {word:?}", line.join(" "));
            return self.must(line[0] == word, rule, || found).map(|()| line);
        }
    }

    /// Whether the client believes in the lease of this waiter. It is asked again and again: of the same answers in a row
    /// the exchange keeps the last, or it would show nothing else.
    pub fn believes(&mut self, waiter: &str) -> Verdict<bool> {
        self.tell(&format!("held {waiter}"));
        let said = self.next_line(waiter)?;
        let text = |line: &String| line.trim_start().split_once(' ').map(|(_time, text)| text.to_owned());
        if let Some(at) = self.exchange.len().checked_sub(4) {
            let texts: Vec<_> = self.exchange[at..].iter().map(text).collect();
            if texts[..2] == texts[2..] {
                self.exchange.drain(at..at + 2);
            }
        }
        Ok(said[0] == "held")
    }

    /// Whether the driver has said this word of any waiter.
    pub fn has_said(&self, word: &str) -> bool {
        self.said.iter().any(|line| line[0] == word)
    }

    /// Whether the driver says something of this waiter before its client sends such a request.
    pub fn is_said_first(&mut self, waiter: &str, verb: &str) -> Verdict<bool> {
        let (start, about) = (Instant::now(), |line: &Vec<String>| line.get(1).is_some_and(|word| word == waiter));
        let asks = |judge: &Judge<'_>| judge.asked.iter().any(|asked| asked.verb == verb);
        while !asks(self) && !self.said.iter().any(about) && self.hear(start)? {}
        Ok(!asks(self))
    }

    /// This request is never answered.
    pub fn ignore(&mut self, asked: Asked) {
        self.note("client ← (nothing, on purpose)");
        self.ignored = true;
        drop(asked);
    }

    /// The connection of this request ends instead of an answer.
    pub fn cut(&mut self, asked: &Asked) {
        self.note("client ← (the connection ends, on purpose)");
        asked.cut();
    }

    /// The latest request that has not been answered; earlier ones never are.
    pub fn latest(&mut self) -> Option<Asked> {
        self.asked.drain(..).next_back()
    }

    /// The next request for this script, or for one "or" another; others are answered as before.
    pub fn request(&mut self, verb: &str, rule: &'static str) -> Verdict<Asked> {
        for _ in 0..OTHERS {
            let asked = self.any_request(rule)?;
            if verb.split(" or ").any(|one| asked.verb == one) {
                return Ok(asked);
            }
            self.as_before(&asked);
        }
        self.must(false, rule, || format!("it sends other requests instead of `{verb}`"))?;
        unreachable!("it complains")
    }

    pub fn any_request(&mut self, rule: &'static str) -> Verdict<Asked> {
        let start = Instant::now();
        // The page says so, even if this client keeps the rule.
        self.must(true, rule, String::new)?;
        loop {
            if let Some(asked) = self.asked.pop_front() {
                return Ok(asked);
            }
            if !self.hear(start)? {
                let rule = if self.ignored { self.ledger.terms.patience() } else { rule };
                self.must(false, rule, || format!("it sends nothing within {SOON:?}"))?;
            }
        }
    }

    /// Takes in what comes next. False if nothing came.
    fn hear(&mut self, start: Instant) -> Verdict<bool> {
        match self.heard.recv_timeout(SOON.saturating_sub(start.elapsed())) {
            Ok(Heard::Said(line)) => {
                self.note(format_args!("driver → {line}"));
                let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                if words[0] == "failed" {
                    return Err(self.driver_failed(&format!("it says {line:?}")));
                }
                if words[0] == "timeout" && words.get(1).is_some_and(|waiter| self.tries.contains(waiter)) {
                    return Err(Complaint {
                        late: true,
                        ..self.driver_failed("no answer reached its `try` within 5 s")
                    });
                }
                self.said.push_back(words);
            }
            Ok(Heard::Asked(asked)) => {
                self.ignored = false;
                self.note(shown(&asked));
                if self.silent {
                    self.note("client ← (nothing for now, on purpose)");
                }
                let checked = self.ledger.check(&asked);
                self.with_exchange(checked)?;
                self.asked.push_back(asked);
            }
            Ok(Heard::Killed(connection)) => {
                self.note(format_args!("client → CLIENT KILL ID {connection}"));
                self.ledger.killed(connection);
            }
            Ok(Heard::Ended) => return Err(self.driver_failed("it has ended")),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    pub fn must(&self, kept: bool, rule: &'static str, found: impl FnOnce() -> String) -> Verdict {
        self.with_exchange(must(kept, rule, found))
    }

    fn with_exchange<T>(&self, verdict: Verdict<T>) -> Verdict<T> {
        let latest = &self.exchange[self.exchange.len().saturating_sub(12)..];
        verdict.map_err(|complaint| Complaint { exchange: latest.to_vec(), ..complaint })
    }

    fn driver_failed(&self, what: &str) -> Complaint {
        self.with_exchange::<()>(must(false, "", || what.to_owned())).unwrap_err()
    }

    /// The driver ends at the end of its input, when its client has given back everything.
    pub fn end(mut self) -> Verdict {
        self.input = None;
        let start = Instant::now();
        loop {
            while let Some(asked) = self.asked.pop_front() {
                self.as_before(&asked);
            }
            match self.hear(start) {
                Ok(true) => {}
                Ok(false) => return Err(self.driver_failed("it does not end with its input")),
                Err(complaint) if complaint.found.ends_with("it has ended") => break,
                Err(complaint) => return Err(complaint),
            }
        }
        let status = self.driver.wait(SOON);
        if status.success() { Ok(()) } else { Err(self.driver_failed(&format!("it ends with {status}"))) }
    }
}
