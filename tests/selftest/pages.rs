//! The pages: their lines are no longer than 120 characters, and the files and headings that they name exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn lines_wrap_and_links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<_> =
        ["README", "CHANGELOG", "CONTRIBUTING", "SECURITY"].map(|page| root.join(page).with_extension("md")).into();
    for folder in [
        "cli",
        "docs",
        "lua",
        "tests",
        "benches",
        "fuzz",
        "examples",
        "examples/kubernetes",
        "examples/python-client",
        "python",
    ] {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let wrong: Vec<_> = pages.iter().flat_map(|page| complaints(root, page)).collect();
    assert!(pages.len() > 10 && wrong.is_empty(), "{wrong:#?}");
}

fn complaints(root: &Path, page: &PathBuf) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let name = page.strip_prefix(root).unwrap().display();
    let (mut wrong, mut code) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        code ^= line.starts_with("```");
        // Code, a row of a table and a single long word cannot be wrapped.
        let wraps = !code && !line.starts_with('|') && line.trim().contains(' ');
        if wraps && line.chars().count() > 120 {
            wrong.push(format!("{name}:{}: {} characters", number + 1, line.chars().count()));
        }
    }
    let links = text.split("](").skip(1).filter_map(|link| link.split(')').next()).filter(|link| !link.contains("://"));
    for (file, anchor) in links.clone().filter_map(|link| link.split_once('#')) {
        let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
        let is_page = target.extension().is_some_and(|extension| extension == "md");
        if is_page && !fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)) {
            wrong.push(format!("{name} names the heading {file}#{anchor}"));
        }
    }
    let links = links.filter_map(|link| link.split('#').next()).filter(|link| !link.is_empty());
    let links = links.map(|link| page.with_file_name(link));
    let folders = ["cli/", "src/", "tests/", "testkit/", "lua/", "docs/", "scripts/", "benches/"];
    let named = text.split('`').skip(1).step_by(2).filter(|path| folders.iter().any(|folder| path.starts_with(folder)));
    let named = named.filter(|path| !path.contains(['*', ' ', ':'])).map(|path| root.join(path));
    wrong.extend(
        links.chain(named).filter(|path| !path.exists()).map(|path| format!("{name} names {}", path.display())),
    );
    wrong
}

/// By which links name the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        heading.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn the_guide_names_every_option_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/guide.md")).unwrap();
    let interface = fs::read_to_string(root.join("docs/public-api.txt")).unwrap();
    let section = guide.split("\n## ").find(|section| section.starts_with("Options")).unwrap();
    for of in ["LockOptions", "ClientBuilder"] {
        let methods = interface.lines().filter_map(|line| line.strip_prefix(&format!("pub fn fairlock::{of}::")));
        let options = methods.filter(|method| method.contains("(self") && method.ends_with(" -> Self"));
        for option in options.map(|method| method.split(['(', '<']).next().unwrap()) {
            let rows = section.lines().filter(|line| line.starts_with('|'));
            let first = rows.filter(|row| row.split('|').nth(1).unwrap().contains(&format!("`{option}`"))).count();
            let named = section.contains(&format!("`{option}`"));
            let is_fine = if of == "LockOptions" { first == 1 } else { named };
            assert!(is_fine, "{of}::{option} has {first} rows");
        }
    }
}

/// A `match` that is written from the tables of errors compiles: `Timeout` is a name of the public interface, and
/// `Fault::Refused` one within the other.
#[test]
fn the_tables_name_only_errors_that_are_public() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let interface = fs::read_to_string(root.join("docs/public-api.txt")).unwrap();
    let item = |line: &str| {
        line.split_once(" fairlock::").map(|(_, path)| path.split(['(', '<', ' ']).next().unwrap().to_owned())
    };
    let items: Vec<String> = interface.lines().filter_map(item).map(|path| format!("::{path}::")).collect();
    let (mut names, mut unknown) = (0, Vec::new());
    for page in ["docs/errors.md", "docs/guide.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        for row in text.lines().filter(|line| line.starts_with('|')) {
            let is_name = |name: &&str| {
                let camel_case = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
                camel_case && name.chars().all(|c| c.is_alphanumeric() || c == ':')
            };
            for name in row.split('`').skip(1).step_by(2).filter(is_name) {
                names += 1;
                let is_public = items.iter().any(|path| path.contains(&format!("::{name}::")));
                unknown.extend((!is_public).then(|| format!("{page}: {name}")));
            }
        }
    }
    assert!(names > 30 && unknown.is_empty(), "of {names} names these are not public: {unknown:?}");
}

/// The page for clients in other languages names the arguments of each script in their order, and every word of a
/// reply.
#[test]
fn the_protocol_page_agrees_with_the_scripts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/protocol.md")).unwrap();
    let replies = page.split("\n## ").find(|section| section.starts_with("Replies")).unwrap();
    for (verb, known) in fairlock::__hooks::verbs() {
        let script = fs::read_to_string(root.join("lua").join(verb).with_extension("lua")).unwrap();
        let header = |marker: &str| {
            let line = script.lines().find_map(|line| line.strip_prefix("-- ")?.trim_start().strip_prefix(marker));
            line.unwrap_or_else(|| panic!("{verb} has no {marker}")).trim()
        };
        let named: Vec<&str> = header("ARGV:").split_whitespace().map(|name| name.trim_end_matches("...")).collect();
        let heading = format!("\n### {verb}\n");
        let section = page.split(&heading).nth(1).unwrap().split("\n##").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
        let described: Vec<&str> = rows.flat_map(|row| row.split(" | ").nth(1).unwrap().split(", ")).collect();
        assert_eq!(described, named, "the arguments of {verb}");
        // A row without a request belongs to the one above it.
        let mut request = String::new();
        let words: Vec<[String; 3]> = replies
            .lines()
            .filter_map(|line| {
                let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
                if !cells[0].is_empty() {
                    request = cells[0].into();
                }
                Some([request.clone(), cells.get(1)?.trim_matches('`').into(), cells[2..].join("|")])
            })
            .filter(|[request, ..]| request == verb)
            .collect();
        let mut told = Vec::new();
        for reply in header("REPLY:").split('|') {
            let mut names = reply.split([' ', '[', ']', '{', '}', ',', '.']).filter(|name| !name.is_empty());
            let word = names.next().unwrap();
            told.push(word);
            // A name with dots stands for those of a line of its own.
            let names =
                names.flat_map(|name| if name.ends_with('…') { header(&format!("{name}:")) } else { name }.split(' '));
            let row = words.iter().find(|[_, found, _]| found == word);
            let [.., described] = row.unwrap_or_else(|| panic!("the reply {word:?} of {verb} is not described"));
            let described: Vec<&str> = described.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            for name in names {
                assert!(
                    described.contains(&name),
                    "the value {name:?} of the reply {word:?} of {verb} is not described"
                );
            }
        }
        assert_eq!(known, told, "the words of {verb} that other tests know");
    }
    let pushes = page.split("\n### Pushes\n").nth(1).unwrap().split("\n##").next().unwrap();
    for (part, section) in [("answer", replies), ("publish", pushes)] {
        let text = fs::read_to_string(root.join(format!("lua/lib/{part}.lua"))).unwrap();
        let packs: Vec<&str> =
            text.lines().find_map(|line| line.strip_prefix("-- PACKS: ")).unwrap().split(' ').collect();
        let table = section.lines().skip_while(|line| !line.starts_with("| value | form ")).skip(2);
        let rows = table.take_while(|line| line.starts_with("| "));
        let described: Vec<&str> = rows.filter_map(|row| row.split(" | ").next()?.strip_prefix("| ")).collect();
        assert_eq!(described, packs, "what {part} packs, in this order");
    }
}

/// The test on the page about tests is one of the examples, where it is compiled and run.
#[test]
fn the_page_about_tests_shows_a_test_that_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let code = fs::read_to_string(root.join("examples/more/tests/more/without_redis.rs")).unwrap();
    assert!(page.contains(&format!("```rust\n{code}```\n")), "{code}");
}

/// crates.io and docs.rs show these pages without the files around them.
#[test]
fn the_pages_of_the_crates_have_no_relative_link() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in ["docs/crate.md", "cli/README.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let relative = text.split("](").skip(1).find(|link| !link.starts_with("https://"));
        assert_eq!(relative.map(|link| link.split(')').next().unwrap()), None, "{page}");
        let command = text.lines().find_map(|line| line.strip_prefix("$ ")).unwrap();
        assert!(command.starts_with("cargo add fairlock") || command == "cargo install fairlock-cli", "{command}");
    }
}
