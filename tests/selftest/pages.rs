//! The pages: their lines are no longer than 120 characters, and the files that they name exist.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn lines_wrap_and_links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "lua", "tests", "benches", "examples", "fuzz"] {
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
