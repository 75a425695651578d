//! The mutants that cargo-mutants makes, of whose list (`cargo mutants --list --json`) `MUTANTS` names the file:
//! another comparison, a function that does nothing. They stand for no promise, and what does not compile is none.

use std::fs;
use std::ops::Range;

use serde::Deserialize;

use crate::list::{Mutant, root, unit_tests};

#[derive(Deserialize)]
struct Listed {
    name: String,
    file: String,
    span: Span,
    replacement: String,
}

#[derive(Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

/// Both count from 1.
#[derive(Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

impl Span {
    fn within(&self, text: &str) -> Range<usize> {
        let byte = |place: &Place| {
            let before: usize = text.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
            let of_line: usize = text[before..].chars().take(place.column - 1).map(char::len_utf8).sum();
            before + of_line
        };
        byte(&self.start)..byte(&self.end)
    }
}

pub(crate) fn parse(json: &str) -> Result<Vec<Mutant>, String> {
    let listed: Vec<Listed> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let mutant = |Listed { name, file, span, replacement }| {
        let text = fs::read_to_string(root().join(&file)).map_err(|error| format!("{file}: {error}"))?;
        // What machines and routes decide is tested apart from them.
        let by = if file.starts_with("src/keeper/") { "lib::decisions".into() } else { unit_tests(&file) };
        let (at, after) = (Some(span.within(&text)), format!(" {replacement} "));
        Ok(Mutant { name, file, by: Some(by), at, after, ..Mutant::default() })
    };
    listed.into_iter().map(mutant).collect()
}

#[test]
fn a_span_counts_characters_and_a_list_that_is_wrong_is_an_error() {
    let span = r#"{"start": {"line": 2, "column": 3}, "end": {"line": 2, "column": 5}}"#;
    let text = "é\né => 1\n";
    assert_eq!(&text[serde_json::from_str::<Span>(span).unwrap().within(text)], "=>");
    parse("[{}]").unwrap_err();
}
