//! The list of mutants. `*.txt` next to this file say for each mutant which promises it breaks, what its wrong behaviour
//! is, and which text it replaces:
//!
//! ```text
//! [I2 I10] asking twice takes a second ticket
//! in lua/acquire.lua
//! - place = place or (ticket > 0 and ticket) or next_stamp()
//! + place = (ticket > 0 and ticket) or next_stamp()
//! ```
//!
//! `[]` marks a mutant that breaks no promise of the lock, but one of the command line: an exit code, for instance.
//!
//! A line `by api::leases` names the tests that should notice, as test binary and module, if they are not the scripts'
//! model or the keeper's own tests. They are run first and alone, which saves building the others. `by lib` names the
//! unit tests: those of the file's folder are run first, and then all.
//!
//! Lines with `-` are a fragment of the file, which may begin and end in the middle of a line. Lines with `+` replace
//! it; without any, the fragment is removed. It is an error if the fragment does not occur exactly once, because a list
//! that fell behind the code proves nothing.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Mutant {
    pub(crate) promises: Vec<u8>,
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) by: Option<String>,
    /// The fragment that it replaces, or where that is in the file, if cargo-mutants found it (`generic.rs`).
    pub(crate) before: String,
    pub(crate) at: Option<Range<usize>>,
    pub(crate) after: String,
}

/// The folder of the package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Mutant {
    pub(crate) fn is_script(&self) -> bool {
        self.file.starts_with("lua/")
    }

    pub(crate) fn is_generic(&self) -> bool {
        self.at.is_some()
    }

    /// Where its fragment is.
    pub(crate) fn place(&self, text: &str) -> Result<Range<usize>, String> {
        let at = match &self.at {
            Some(at) => at.clone(),
            None => {
                let places: Vec<usize> = text.match_indices(&self.before).map(|(at, _)| at).collect();
                let &[at] = &*places else {
                    return Err(format!("its fragment is {} times in {}", places.len(), self.file));
                };
                at..at + self.before.len()
            }
        };
        if text[at.clone()] == self.after { Err("it changes nothing".into()) } else { Ok(at) }
    }

    /// A part of the text of its file with this mutation.
    pub(crate) fn apply_within(&self, text: &str, part: Range<usize>) -> Result<String, String> {
        let at = self.place(text)?;
        if at.start < part.start || part.end < at.end {
            return Err("it lies elsewhere".into());
        }
        Ok([&text[part.start..at.start], &*self.after, &text[at.end..part.end]].concat())
    }

    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        self.apply_within(text, 0..text.len())
    }

    /// A mutant of a script as one of the function that puts scripts together, for a switch.
    pub(crate) fn in_rust(self) -> Self {
        let name = self.file.strip_prefix("lua/").and_then(|name| name.strip_suffix(".lua"));
        // That one is asked for while a client connects, and not put together.
        let Some(name) = name.filter(|name| *name != "rights") else { return self };
        let before = "    read(file, text)\n".to_owned();
        let after = format!(
            "let broken = if file == {name:?} {{ text.replacen({:?}, {:?}, 1) }} else {{ text.to_owned() }};\n\
             let text = broken.as_str();\n{before}",
            self.before, self.after
        );
        Self { file: "src/protocol/scripts.rs".into(), before, after, ..self }
    }

    pub(crate) fn applied(&self) -> Result<String, String> {
        let text = fs::read_to_string(root().join(&self.file)).map_err(|error| format!("{}: {error}", self.file))?;
        self.apply(&text)
    }
}

/// All mutants of the lists, in the order of the files' names.
pub(crate) fn read() -> Result<Vec<Mutant>, String> {
    let folder = root().join("tests/mutants");
    let files = fs::read_dir(&folder).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut mutants = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        mutants.extend(parse(&text).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(mutants)
}

/// Those of the folder of this file.
pub(crate) fn unit_tests(file: &str) -> String {
    let folder = file.trim_start_matches("src/").rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("lib::{}", folder.replace('/', "::"))
}

pub(crate) fn parse(text: &str) -> Result<Vec<Mutant>, String> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", number + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let (promises, name) = header.split_once("] ").ok_or_else(|| wrong("[I1 I2] and a name"))?;
            let promises: Option<_> =
                promises.split_whitespace().map(|promise| promise.strip_prefix('I')?.parse().ok()).collect();
            let promises = promises.ok_or_else(|| wrong("promises are I1 to I12"))?;
            mutants.push(Mutant { promises, name: name.to_owned(), ..Mutant::default() });
            continue;
        }
        let mutant = mutants.last_mut().ok_or_else(|| wrong("a mutant begins with its promises"))?;
        let add = |to: &mut String, line: &str| {
            let between = if to.is_empty() { "" } else { "\n" };
            to.extend([between, line]);
        };
        match line.split_once(' ').unwrap_or((line, "")) {
            ("in", file) if mutant.file.is_empty() => mutant.file = file.to_owned(),
            ("by", "lib") => mutant.by = Some(unit_tests(&mutant.file)),
            ("by", target) => mutant.by = Some(target.to_owned()),
            ("-", fragment) if mutant.after.is_empty() => add(&mut mutant.before, fragment),
            ("+", instead) if !mutant.before.is_empty() => add(&mut mutant.after, instead),
            _ => return Err(wrong("in FILE, perhaps by TARGET, then - lines, then + lines")),
        }
    }
    match mutants.iter().find(|mutant| mutant.file.is_empty() || mutant.before.is_empty()) {
        Some(mutant) => Err(format!("{}: without a file or a fragment", mutant.name)),
        None => Ok(mutants),
    }
}
