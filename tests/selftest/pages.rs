//! The pages: their lines are no longer than 120 characters, and the files that they name exist.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn lines_wrap_and_links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<_> =
        ["README", "CHANGELOG", "CONTRIBUTING", "SECURITY"].map(|page| root.join(page).with_extension("md")).into();
    for folder in ["docs", "lua", "tests", "benches", "fuzz", "examples", "examples/python-client"] {
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
    let links = text.split("](").skip(1).filter_map(|link| link.split([')', '#']).next());
    let links = links.filter(|link| !link.is_empty() && !link.contains("://")).map(|link| page.with_file_name(link));
    let folders = ["src/", "tests/", "testkit/", "lua/", "docs/", "scripts/", "benches/"];
    let named = text.split('`').skip(1).step_by(2).filter(|path| folders.iter().any(|folder| path.starts_with(folder)));
    let named = named.filter(|path| !path.contains(['*', ' ', ':'])).map(|path| root.join(path));
    wrong.extend(
        links.chain(named).filter(|path| !path.exists()).map(|path| format!("{name} names {}", path.display())),
    );
    wrong
}

/// The page for clients in other languages names the arguments of each script in their order, and every word of a
/// reply.
#[test]
fn the_protocol_page_agrees_with_the_scripts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/protocol.md")).unwrap();
    let replies = page.split("\n## ").find(|section| section.starts_with("Replies")).unwrap();
    for verb in ["acquire", "heartbeat", "renew", "release", "leave", "inspect", "break"] {
        let script = fs::read_to_string(root.join("lua").join(verb).with_extension("lua")).unwrap();
        let header = |marker: &str| {
            let line = script.lines().find_map(|line| line.strip_prefix("-- ")?.strip_prefix(marker));
            line.unwrap_or_else(|| panic!("{verb} has no {marker}")).trim()
        };
        let named: Vec<&str> = header("ARGV:").split(' ').map(|name| name.trim_end_matches("...")).collect();
        let heading = format!("\n### {verb}\n");
        let section = page.split(&heading).nth(1).unwrap().split("\n##").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
        let described: Vec<&str> = rows.flat_map(|row| row.split(" | ").nth(1).unwrap().split(", ")).collect();
        assert_eq!(described, named, "the arguments of {verb}");
        for reply in header("REPLY:").split('|') {
            for word in reply.split([' ', '[', ']', '{', '}', ',', '.']).filter(|word| !word.is_empty()) {
                assert!(replies.contains(word), "the reply {word:?} of {verb} is not described");
            }
        }
    }
    let answer = fs::read_to_string(root.join("lua/lib/answer.lua")).unwrap();
    for name in answer.split('\'').skip(1).step_by(2).filter(|name| name.len() > 1) {
        assert!(replies.contains(name), "the value {name:?} of every reply is not described");
    }
}
