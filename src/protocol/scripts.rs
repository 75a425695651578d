//! The scripts. A contract test holds header, body and request together.

use crate::fork::Lazy;

use super::request::Verb;

/// One script as it is sent to the server.
pub(crate) struct Source {
    #[cfg_attr(not(any(test, feature = "__test-hooks")), allow(dead_code))]
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! files {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../../lua/", $name, ".lua")))),*] };
}

/// The scripts, then the parts that they include.
pub(super) const FILES: [(&str, &str); 50] = files![
    "acquire" "heartbeat" "renew" "release" "leave" "inspect" "break" "history"
    "lib/keys" "lib/terms" "lib/times" "lib/texts" "lib/asker" "lib/own_ids" "lib/known" "lib/begin" "lib/state"
    "lib/time" "lib/clock" "lib/leases" "lib/tag" "lib/lease" "lib/take" "lib/put" "lib/count" "lib/sweep" "lib/clear"
    "lib/session" "lib/plan" "lib/found" "lib/in_touch" "lib/short" "lib/calm_grant" "lib/calm_release" "lib/lost"
    "lib/open" "lib/restore" "lib/bring_back" "lib/recovery" "lib/refresh" "lib/give_up"
    "lib/heads" "lib/promote" "lib/tell_holders" "lib/store" "lib/decide" "lib/write" "lib/publish" "lib/commit"
    "lib/answer"
];

/// The scripts in the order of [`Verb::ALL`].
pub(crate) static SCRIPTS: Lazy<[Source; Verb::ALL.len()]> =
    Lazy::new(|| assemble(&|_, text| code_of(text)).map(|(name, text)| Source { name, text: text.leak() }));

/// What a client asks for its user's rights while it connects. It is no verb: no lock is named.
pub(crate) static RIGHTS: Lazy<Source> =
    Lazy::new(|| Source { name: "rights", text: code_of(include_str!("../../lua/rights.lua")).leak() });

/// Begins a line of a script in whose place a part comes.
const INCLUDE: &str = "-- include ";

/// A file without what only people read.
fn code_of(text: &str) -> String {
    let is_code = |line: &str| !line.is_empty() && (!line.starts_with("--") || line.starts_with(INCLUDE));
    text.lines().filter(|line| is_code(line.trim_start())).flat_map(|line| [line, "\n"]).collect()
}

impl Verb {
    /// The script of this verb.
    #[cfg(any(test, feature = "testing", feature = "operator"))]
    pub(crate) fn script(self) -> &'static Source {
        &SCRIPTS[self as usize]
    }
}

/// Names and texts of the scripts in the order of [`Verb::ALL`], of files as `read` makes them: with the parts in the
/// places of the lines `-- include NAME`, and with the values of constants in theirs. Every process does this before its
/// first lock, so each file is looked through once.
pub(crate) fn assemble(read: &dyn Fn(&str, &str) -> String) -> [(&'static str, String); Verb::ALL.len()] {
    let files = FILES.map(|(file, text)| (file, read_file(file, text, read)));
    let lines = files.iter().flat_map(|(_, text)| text.lines());
    let constants: Vec<_> = lines.filter_map(declared_constants).flatten().collect();
    let files = files.each_ref().map(|(file, text)| (*file, put_constants(text, &constants)));
    Verb::ALL.map(|verb| {
        let mut script = String::new();
        put_file(&mut script, "", verb.file(), &files);
        (verb.file(), script)
    })
}

/// A mutant of a file is one of this function.
fn read_file(file: &str, text: &str, read: &dyn Fn(&str, &str) -> String) -> String {
    read(file, text)
}

/// Parts are text and no functions: a function would be made anew on every run, and so would a box for every variable
/// that it shares with others.
fn put_file(script: &mut String, indent: &str, file: &str, files: &[(&str, String)]) {
    // A test assembles all of them.
    let (_, text) = files.iter().find(|(name, _)| *name == file).unwrap_or_else(|| panic!("no part {file}"));
    for line in text.lines() {
        let code = line.trim_start();
        match code.strip_prefix(INCLUDE) {
            // What follows the name says what the part takes and gives.
            Some(part) => {
                let name = part.split([':', ' ']).next().unwrap_or_default();
                let indent = format!("{indent}{}", &line[..line.len() - code.len()]);
                put_file(script, &indent, &format!("lib/{name}"), files);
            }
            None => script.extend([if line.is_empty() { "" } else { indent }, line, "\n"]),
        }
    }
}

/// Puts the value of each constant, a local whose name has no small letters, where its name stands: a script may have
/// 200 locals, and constants would take a fifth of them.
fn put_constants(text: &str, constants: &[(&str, &str)]) -> String {
    let mut put = String::with_capacity(2 * text.len());
    for line in text.lines().filter(|line| declared_constants(line).is_none()) {
        match line.bytes().any(|letter| letter.is_ascii_uppercase()) {
            true => put_values(&mut put, line, constants),
            false => put.push_str(line),
        }
        put.push('\n');
    }
    put
}

/// The names and values of a line `local A, B = 1, 'text' -- why`.
pub(super) fn declared_constants(line: &str) -> Option<Vec<(&str, &str)>> {
    let code = line.trim_start().strip_prefix("local ")?;
    let (names, values) =
        code.starts_with(|first: char| first.is_ascii_uppercase()).then(|| code.split_once(" = "))??;
    let values = values.split_once(" -- ").map_or(values, |(values, _)| values);
    let values = if names.contains(',') { values.split(", ").collect() } else { vec![values] };
    let is_constant = |name: &str| !has_small_letters(name);
    names.split(", ").all(is_constant).then(|| names.split(", ").zip(values).collect())
}

fn has_small_letters(name: &str) -> bool {
    name.contains(|letter: char| letter.is_ascii_lowercase())
}

/// Comments and texts in quotes stay as they are.
fn put_values(put: &mut String, line: &str, constants: &[(&str, &str)]) {
    let (code, comment) = line.split_at(line.find("--").unwrap_or(line.len()));
    for (index, piece) in code.split('\'').enumerate() {
        let is_quoted = index % 2 == 1;
        put.push_str(if index > 0 { "'" } else { "" });
        for word in piece.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
            let name = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            match constants.iter().find(|(constant, _)| !is_quoted && *constant == name) {
                Some((_, value)) => put.extend([value, &word[name.len()..]]),
                None => put.push_str(word),
            }
        }
    }
    put.push_str(comment);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::request::every_request;
    use super::*;

    fn after<'a>(text: &'a str, marker: &str) -> &'a str {
        let start = text.find(marker).unwrap_or_else(|| panic!("no {marker:?}")) + marker.len();
        text[start..].lines().next().unwrap().trim()
    }

    /// The names that the body binds: from `unpack(ARGV)` or from `ARGV[n]`, in order.
    fn bound(body: &str) -> Vec<String> {
        let code = body.replace("=\n  unpack(ARGV)", "= unpack(ARGV)");
        let Some(line) = code.lines().find(|line| {
            let right = line.strip_prefix("local ").and_then(|line| line.split_once(" = "));
            right.is_some_and(|(_, right)| right == "unpack(ARGV)" || right.contains("ARGV[1]"))
        }) else {
            return vec![];
        };
        let names = line.trim_start_matches("local ").split('=').next().unwrap();
        names.split(',').map(|name| name.trim().to_owned()).collect()
    }

    // The whole contract in one place: header, body, and what is sent.
    #[test]
    fn header_body_and_request_agree() {
        let requests = every_request();
        assert_eq!(requests.len(), SCRIPTS.len());
        for (verb, request) in Verb::ALL.into_iter().zip(&requests) {
            assert_eq!(request.verb(), verb);
            let Source { name, text } = verb.script();
            let body = FILES.iter().find(|(file, _)| file == name).unwrap().1;
            assert!(body.starts_with(&format!("-- {name}: ")), "{name}: the header comes first");

            assert_eq!(after(body, "-- KEYS:"), "lock", "{name}");
            assert!(text.contains("local lock = KEYS[1]") && !text.contains("KEYS[2]"));
            assert_eq!(request.keys().lock, "fairlock:{n}:lock");

            let header: Vec<&str> = after(body, "-- ARGV:").split_whitespace().collect();
            let mut sent = Vec::new();
            request.arguments("c", |argument, _| sent.push(argument));
            assert_eq!(sent, header, "{name}: the request against the header");
            let named: Vec<&str> =
                header.iter().filter(|n| !n.ends_with("...")).map(|n| n.strip_prefix("their_").unwrap_or(n)).collect();
            let bound = bound(body);
            let bound: Vec<&str> = bound.iter().map(|n| n.strip_prefix("their_").unwrap_or(n)).collect();
            assert_eq!(bound, named, "{name}: the body against the header");

            // Every word that the body answers is in the header, and the client knows it, and no other.
            let replies: Vec<&str> =
                after(body, "-- REPLY:").split('|').map(|r| r.split_whitespace().next().unwrap()).collect();
            assert_eq!(replies, request.verb().words(), "{name}: the header against the words that the client knows");
            for word in &replies {
                assert!(text.contains(&format!("'{word}'")), "{name} never answers {word:?}");
            }
            // The right side of what sets the word, up to the values that go with it.
            let sets = text.lines().filter(|line| line.contains("word") && line.contains(" = "));
            for line in sets.filter_map(|line| line.split(" = ").nth(1)) {
                for word in
                    line.split('{').next().unwrap().split('\'').skip(1).step_by(2).filter(|word| !word.is_empty())
                {
                    assert!(replies.contains(&word), "{name} answers {word:?}, its header does not say so");
                }
            }
        }
    }

    /// Also where a value has a comma, or a name stands in a text.
    #[test]
    fn constants_stand_in_their_places() {
        let text =
            "local A, B_US = 1, 'x' -- two\nlocal BAD = 'of A, and more'\nlocal a = A + AB .. B_US -- A\nf('A', BAD)";
        let constants: Vec<_> = text.lines().filter_map(declared_constants).flatten().collect();
        assert_eq!(put_constants(text, &constants), "local a = 1 + AB .. 'x' -- A\nf('A', 'of A, and more')\n");
    }

    #[test]
    fn what_is_asked_for_is_sent_packed() {
        let second = 1_000_000_f64.to_le_bytes();
        let terms = |room: f64| {
            let spans = [second, second, second, second, room.to_le_bytes()].concat();
            let (most, as_claim) = ([3_u8, 0], 0);
            let sizes = [&most[..], &[as_claim, 1, 1, 0, 1, 0, 3, 0][..]].concat();
            [&spans[..], &sizes, b"slotag"].concat()
        };
        let mut sent = Vec::new();
        for request in every_request() {
            request.arguments("tag", |name, pieces| {
                if ["terms", "times", "left"].contains(&name) {
                    sent.push((request.verb(), name, pieces.concat()));
                }
            });
        }
        let mut renewed = terms(0.0);
        renewed[8..24].fill(0);
        let expected = [
            (Verb::Acquire, "terms", terms((1_u64 << 53) as f64)),
            (Verb::Heartbeat, "times", [second; 3].concat()),
            (Verb::Renew, "terms", renewed),
            (Verb::Renew, "left", second.to_vec()),
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn scripts_follow_the_rules() {
        let writes = ["lib/write", "lib/publish", "lib/store", "lib/calm_grant", "lib/calm_release", "history"];
        let without_writes = assemble(&|file, text| if writes.contains(&file) { "" } else { text }.to_owned());
        for Source { name, text } in SCRIPTS.iter() {
            let body = FILES.iter().find(|(file, _)| file == name).unwrap().1;
            assert!(!text.starts_with("#!"), "{name}: a shebang defeats the order of writes on Redis 7");
            assert_eq!(text.matches("'TIME'").count(), 1, "{name}: the clock is read in one place");
            assert!(!text.contains("EXPIREAT"), "{name}: TTLs are relative");
            assert!(!text.contains("tostring"), "{name}: Lua would print 1.7e+15");
            match *name {
                "acquire" => assert!(body.contains("lenient = room > 0, false"), "it is refused when memory is out"),
                "inspect" => assert!(!body.contains("-- include commit"), "inspect writes nothing"),
                // It has a key of its own, and renames an entry where it takes a calm lock in.
                "history" => assert!(!body.contains("'HSET'"), "the state is written in one place"),
                _ => assert!(!body.contains("lenient ="), "{name} must go on when memory is out"),
            }
            let (_, others) = without_writes.iter().find(|(script, _)| script == name).unwrap();
            for write in ["HSET", "HDEL", "ZADD", "ZREM", "DEL", "PEXPIRE", "PUBLISH"] {
                assert!(!others.contains(&format!("call('{write}'")), "{name}: {write} belongs to write.lua");
            }
        }
    }
}
