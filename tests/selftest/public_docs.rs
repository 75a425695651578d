//! The documentation of the public interface: what can fail says how, what asks the server says what that costs, and
//! what can be dropped halfway says what happens then.

use std::fs;
use std::path::{Path, PathBuf};

/// These files are not for users: they are hidden, or behind a feature for this crate's own tests.
const HIDDEN: [&str; 4] = ["__hooks.rs", "operator.rs", "clock.rs", "testing/promises.rs"];

#[test]
fn operations_name_errors_costs_and_cancel_safety() {
    let sources = sources();
    let wrong: Vec<String> = sources.iter().flat_map(|path| complaints(path)).collect();
    assert!(sources.len() > 10 && wrong.is_empty(), "{wrong:#?}");
}

/// A page of rustdoc about a type is often the first that a reader sees of it.
#[test]
fn each_public_type_has_an_example() {
    let (mut types, mut without) = (0, Vec::new());
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let mut doc = String::new();
        for line in text.lines() {
            if line.starts_with("pub struct ") || line.starts_with("pub enum ") {
                types += 1;
                without.extend((!doc.contains("```")).then(|| format!("{}: {line}", path.display())));
            }
            let goes_on = line.starts_with("///") || line.starts_with("#[");
            doc = if goes_on { doc + line } else { String::new() };
        }
    }
    assert!(types > 30 && without.is_empty(), "{types} types, without an example: {without:#?}");
}

fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = ["", "error", "compat", "testing"].into_iter().flat_map(|folder| files(root.join(folder)));
    let shown = |path: &PathBuf| !HIDDEN.iter().any(|hidden| path.ends_with(hidden));
    sources.filter(|path| path.extension().is_some_and(|it| it == "rs")).filter(shown).collect()
}

fn complaints(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (mut wrong, mut doc) = (Vec::new(), String::new());
    for (number, line) in lines.iter().enumerate() {
        if let Some(said) = line.strip_prefix("///") {
            doc += said;
            doc += "\n";
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        if let Some(function) = line.strip_prefix("pub fn ").or(line.strip_prefix("pub async fn ")) {
            let signature = lines[number..].iter().take(8).copied().collect::<Vec<_>>().join(" ");
            let signature = signature.split('{').next().unwrap_or_default();
            let asks = line.starts_with("pub async") || signature.contains("Operation<");
            let mut needs = |needed: bool, said: bool, what: &str| {
                if needed && !said {
                    let name = function.split(['(', '<']).next().unwrap_or_default();
                    wrong.push(format!("{}:{}: {name} does not say {what}", path.display(), number + 1));
                }
            };
            needs(signature.contains("Result<"), doc.contains("# Errors"), "how it fails");
            needs(asks, doc.contains("# Cancel safety"), "what happens if it is dropped");
            needs(asks, doc.contains("ound trip") || doc.contains("osts"), "what it costs");
        }
        doc.clear();
    }
    wrong
}
