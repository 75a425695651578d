//! Which frames a proxy strikes, and what it does to them.

use std::time::Duration;

/// Which frames a fault is for.
#[derive(Clone, Debug)]
pub struct Target {
    side: Side,
    word: Vec<u8>,
    command: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Request,
    Reply,
    Push,
}

impl Target {
    /// Requests in which a word contains this text, in any case; all requests if the text is empty. The question which
    /// scripts exist names all of them, and is a request for none.
    pub fn request(word: impl AsRef<[u8]>) -> Target {
        Target { side: Side::Request, word: word.as_ref().to_ascii_lowercase(), command: false }
    }

    /// Replies to such requests.
    pub fn reply(word: impl AsRef<[u8]>) -> Target {
        Target { side: Side::Reply, ..Target::request(word) }
    }

    /// Pushes in which a word contains this text.
    pub fn push(word: impl AsRef<[u8]>) -> Target {
        Target { side: Side::Push, ..Target::request(word) }
    }

    /// Only the name of the command is compared; or all of its words.
    pub fn command(self) -> Target {
        Target { command: true, ..self }
    }

    fn hits(&self, side: Side, words: &[Vec<u8>]) -> bool {
        let contains = |text: &[u8]| text.to_ascii_lowercase().windows(self.word.len()).any(|part| part == self.word);
        if self.command {
            return self.side == side && words.first().is_some_and(|word| word.eq_ignore_ascii_case(&self.word));
        }
        let asks = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"EXISTS"));
        self.side == side && (self.word.is_empty() || !asks && words.iter().any(|word| contains(word)))
    }
}

/// What happens to a frame that a fault strikes.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// It waits until the fault is lifted, and so do the frames behind it.
    Hold,
    /// It is lost, with all later frames in its direction of the connection, even after the fault is lifted.
    Swallow,
    /// It comes this much later. Frames that come together are late together, as on a long link.
    Delay(Duration),
    /// This error takes its place: a request is not executed, a reply is replaced. A push cannot be answered.
    Answer(&'static str),
    /// The connection ends after this many bytes of the frame.
    Cut(usize),
    /// The connection ends after this many bytes of all frames that the fault is for, since it was set.
    CutAfter(usize),
    /// This reply comes so many times, or never, and the stream goes on behind it. No network does that, but a proxy that
    /// reads frames may.
    Repeat(usize),
}

/// The current faults, in the order in which they were set.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    /// How often each fault struck, by its number.
    strikes: Vec<u64>,
}

#[derive(Debug)]
struct Rule {
    number: usize,
    target: Target,
    act: Act,
    /// How often it may still strike.
    left: u64,
}

impl Rule {
    /// Whether a frame of this length passes before a connection is cut.
    fn passes(&mut self, length: usize) -> bool {
        let Act::CutAfter(bytes) = &mut self.act else { return false };
        let passes = length <= *bytes;
        if passes {
            *bytes -= length;
        }
        passes
    }
}

impl Rules {
    pub fn add(&mut self, times: u64, target: Target, act: Act) -> usize {
        assert!(!matches!((target.side, act), (Side::Push, Act::Answer(_))), "nobody asked for a push");
        assert!(target.side == Side::Reply || !matches!(act, Act::Repeat(_)), "only replies are repeated");
        let number = self.strikes.len();
        self.strikes.push(0);
        self.rules.push(Rule { number, target, act, left: times });
        number
    }

    /// The first fault for such a frame strikes.
    pub fn strike(&mut self, side: Side, words: &[Vec<u8>], length: usize) -> Option<(usize, Act)> {
        let rule = self.rules.iter_mut().find_map(|rule| {
            let strikes = rule.left > 0 && rule.target.hits(side, words) && !rule.passes(length);
            strikes.then_some(rule)
        })?;
        rule.left -= 1;
        self.strikes[rule.number] += 1;
        match rule.act {
            Act::CutAfter(bytes) => Some((rule.number, Act::Cut(bytes))),
            act => Some((rule.number, act)),
        }
    }

    pub fn struck(&self, number: usize) -> u64 {
        self.strikes[number]
    }

    /// Whether it has not been lifted. A fault that has struck often enough still holds the frames that it held.
    pub fn lasts(&self, number: usize) -> bool {
        self.rules.iter().any(|rule| rule.number == number)
    }

    pub fn lift(&mut self, number: usize) {
        self.rules.retain(|rule| rule.number != number);
    }

    pub fn lift_all(&mut self) {
        self.rules.clear();
    }
}
