//! The scripts of this build, and those of a commit of before, called by hand. Arguments are filled in by the names that
//! a script's header gives to them, so that these calls go on working when a script takes others.

use std::collections::BTreeMap;
use std::process::Command;

use super::wire::{Wire, head, word};

/// One script, and what its header says that it takes.
struct Script {
    name: String,
    digest: String,
    keys: Vec<String>,
    arguments: Vec<String>,
}

/// All scripts of one commit, loaded into a server.
pub struct Scripts {
    prefix: &'static str,
    scripts: Vec<Script>,
}

/// The values of a call, by name. What is not named is 0, and what a client was told is empty, as for one that knows
/// nothing yet.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<String, Vec<u8>>);

impl Values {
    pub fn set(mut self, name: &str, value: impl ToString) -> Values {
        self.put(name, value);
        self
    }

    pub fn put(&mut self, name: &str, value: impl ToString) {
        self.put_bytes(name, value.to_string().as_bytes());
    }

    pub fn put_bytes(&mut self, name: &str, value: &[u8]) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    fn get(&self, name: &str) -> Vec<u8> {
        let double = |name: &&str| {
            let digits = self.get(name);
            let number: f64 = std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0.0);
            number.to_le_bytes()
        };
        match (name, self.0.get(name)) {
            (_, Some(value)) => value.clone(),
            ("memory" | "seat", None) => vec![],
            // What later scripts take as one text.
            ("times", None) => ["liveness_us", "buffer_us", "heartbeat_us"].iter().flat_map(double).collect(),
            ("left", None) => double(&"left_us").into(),
            ("terms", None) => {
                let texts = ["secret", "label", "owner"].map(|name| self.get(name));
                let [secret, label, owner] = texts.each_ref().map(|text| (text.len() as u16).to_le_bytes());
                let numbers = ["liveness_us", "buffer_us", "heartbeat_us", "lease_us", "room"];
                let numbers: Vec<u8> = numbers.iter().flat_map(double).collect();
                let as_claim = u8::from(self.get("as_claim") == b"1");
                let most = [1, 0];
                let sizes = [&most[..], &[as_claim, secret[0]][..], &label, &owner, &[0, 0]].concat();
                [numbers, sizes, texts.concat()].concat()
            }
            (
                "after" | "as_claim" | "buffer_us" | "count" | "force" | "heartbeat_us" | "in_cluster" | "label"
                | "lease_us" | "left_us" | "liveness_us" | "owner" | "room" | "secret" | "switch" | "tell_from"
                | "tell_most",
                None,
            ) => b"0".into(),
            (_, None) => panic!("no value for {name}"),
        }
    }
}

impl Scripts {
    /// The scripts of this build. The names of all keys begin with `prefix`.
    pub fn of_this_build(prefix: &'static str, wire: &mut Wire) -> Scripts {
        let scripts = fairlock::__hooks::scripts_of(|_, text| text.to_owned());
        Scripts::load(prefix, scripts.into_iter().map(|(name, text)| (name.to_owned(), text)), wire)
    }

    /// The scripts of a commit, or why they cannot be had.
    pub fn of_commit(commit: &str, prefix: &'static str, wire: &mut Wire) -> Result<Scripts, String> {
        let names = git(&["ls-tree", "--name-only", commit, "lua/"])?;
        let names = names.lines().filter_map(|path| path.strip_prefix("lua/")?.strip_suffix(".lua"));
        let scripts = names.map(|name| Ok((name.to_owned(), assembled(commit, name)?)));
        Ok(Scripts::load(prefix, scripts.collect::<Result<Vec<_>, String>>()?.into_iter(), wire))
    }

    fn load(prefix: &'static str, scripts: impl Iterator<Item = (String, String)>, wire: &mut Wire) -> Scripts {
        let load = |(name, text): (String, String)| Script {
            digest: wire.command(&["SCRIPT", "LOAD", &text]).text().to_owned(),
            keys: named(&text, &name, "-- KEYS:"),
            arguments: named(&text, &name, "-- ARGV:"),
            name,
        };
        // What has no keys is no verb: a client sends it while it connects.
        let verbs = scripts.filter(|(_, text)| text.contains("-- KEYS:"));
        Scripts { prefix, scripts: verbs.map(load).collect() }
    }

    /// A call of a script as it goes over the wire. `ids` are those of the argument `ids...`.
    pub fn call(&self, script: &str, lock: &str, values: &Values, ids: &[String]) -> Vec<u8> {
        let mut request = Vec::new();
        let script = self.script(script);
        let before = self.before_arguments(script, lock);
        let variadic = |name: &String| name.ends_with("...");
        let count = before.len()
            + script.arguments.iter().map(|name| if variadic(name) { ids.len() } else { 1 }).sum::<usize>();
        head(count, &mut request);
        before.iter().for_each(|text| word(text, &mut request));
        for name in &script.arguments {
            match variadic(name) {
                true => ids.iter().for_each(|id| word(id, &mut request)),
                false => word(values.get(name), &mut request),
            }
        }
        request
    }

    /// A call made once, in which some arguments are still to be filled in: the least work for a caller. No `ids...`.
    pub fn template(&self, script: &str, lock: &str, values: &Values, changing: &[&str]) -> Template {
        let script = self.script(script);
        let before = self.before_arguments(script, lock);
        let mut parts = Vec::new();
        let mut bytes = Vec::new();
        head(before.len() + script.arguments.len(), &mut bytes);
        before.iter().for_each(|text| word(text, &mut bytes));
        for name in &script.arguments {
            match changing.iter().position(|changing| changing == name) {
                Some(nth) => parts.push((std::mem::take(&mut bytes), nth)),
                None => word(values.get(name), &mut bytes),
            }
        }
        Template { parts, rest: bytes }
    }

    /// The HDEL that gives back a calm lock: a call in which the field is still to be filled in.
    pub fn give_back(&self, lock: &str) -> Template {
        let mut fixed = Vec::new();
        head(3, &mut fixed);
        ["HDEL", &self.key(lock, "lock")].iter().for_each(|text| word(text, &mut fixed));
        Template { parts: vec![(fixed, 0)], rest: Vec::new() }
    }

    fn script(&self, name: &str) -> &Script {
        self.scripts.iter().find(|script| script.name == name).unwrap_or_else(|| panic!("no script {name}"))
    }

    fn before_arguments(&self, script: &Script, lock: &str) -> Vec<String> {
        let mut words = vec!["EVALSHA".to_owned(), script.digest.clone(), script.keys.len().to_string()];
        words.extend(script.keys.iter().map(|key| self.key(lock, key)));
        words
    }

    /// Where a client hears of its grants. Since layout 3 the scripts make this name from the key.
    pub fn channel(&self, client: &str) -> String {
        format!("{}:client:{client}", self.prefix)
    }

    pub fn key(&self, lock: &str, key: &str) -> String {
        format!("{}:{{{lock}}}:{key}", self.prefix)
    }
}

/// A call whose changing arguments are filled in.
pub struct Template {
    /// What is fixed, and the number of the argument behind it.
    parts: Vec<(Vec<u8>, usize)>,
    rest: Vec<u8>,
}

impl Template {
    pub fn fill(&self, changing: &[&[u8]], request: &mut Vec<u8>) {
        for (fixed, nth) in &self.parts {
            request.extend_from_slice(fixed);
            word(changing[*nth], request);
        }
        request.extend_from_slice(&self.rest);
    }
}

/// The names in a line of a script's header.
fn named(text: &str, script: &str, label: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_else(|| panic!("{script} has no {label}")).split_whitespace().map(str::to_owned).collect()
}

/// A script of a commit with its parts in the places of the lines `-- include NAME`.
fn assembled(commit: &str, file: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in git(&["show", &format!("{commit}:lua/{file}.lua")])?.lines() {
        match line.trim_start().strip_prefix("-- include ") {
            // What follows the name says what the part takes and gives.
            Some(part) => {
                let name = part.split([':', ' ']).next().unwrap_or_default();
                text += &assembled(commit, &format!("lib/{name}"))?;
            }
            None => text.extend([line, "\n"]),
        }
    }
    Ok(text)
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.map_err(|error| format!("git does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}
