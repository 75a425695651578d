//! Imports go one way: a reader can begin with a file that imports no other, and never has to know two files at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_files_of_the_command_line_import_each_other() {
    let graph = imports("cli/src", str::to_owned);
    assert!(graph["run::acquire"].contains("run::request"), "{graph:#?}");
    assert_eq!(circles(&graph), BTreeSet::new());
}

/// In the library the folders are the rooms: the keeper imports no handle, the protocol and the servers no keeper.
#[test]
fn no_rooms_of_the_library_import_each_other() {
    let graph = imports("src", |file| file.split("::").next().unwrap().to_owned());
    assert!(graph["guard"].contains("keeper") && graph["keeper"].contains("protocol"), "{graph:#?}");
    assert_eq!(circles(&graph), BTreeSet::new());
}

/// Files that import each other in a circle are read as one, so a circle stays as small as a reader can hold in mind.
#[test]
fn few_files_import_each_other_in_a_circle() {
    for root in ["src", "testkit/src"] {
        let large: Vec<_> =
            circles(&imports(root, str::to_owned)).into_iter().filter(|group| group.len() > 6).collect();
        assert!(large.is_empty(), "{root}: {large:#?}");
    }
}

/// `lib.rs` of the test kit passes on what tests use. Its own files import from each other, so that all arrows go down.
#[test]
fn no_file_of_the_test_kit_imports_what_its_front_passes_on() {
    let mut files = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testkit/src"), "", &mut files);
    let is_from_front = |file: &str, path: &str| {
        let rest = path.strip_prefix("crate::").or(path.strip_prefix("super::").filter(|_| !file.contains("::")));
        rest.is_some_and(|rest| !rest.is_empty() && !files.contains_key(rest.split("::").next().unwrap()))
    };
    let all = files.iter().flat_map(|(file, text)| paths(text).into_iter().map(move |path| (file, path)));
    let wrong: Vec<_> = all.filter(|(file, path)| is_from_front(file, path)).collect();
    assert!(files.len() > 20 && wrong.is_empty(), "{wrong:#?}");
}

/// The redis crate encodes, parses and is compared with in one folder.
#[test]
fn one_folder_of_the_library_names_the_redis_crate() {
    let mut files = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut files);
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let names = |text: &str| {
        let named = |line: &str| ["redis::", "use redis;", "use redis as"].iter().any(|name| line.contains(name));
        text.lines().filter(is_code).any(named)
    };
    let with: BTreeSet<&str> = files.iter().filter(|(_, text)| names(text)).map(|(file, _)| &file[..]).collect();
    assert!(with.contains("server::hooks") && with.iter().all(|file| file.starts_with("server")), "{with:?}");
}

/// Threads block signals, and a thread that is started in another way would not.
#[test]
fn one_file_of_the_library_starts_threads() {
    let mut files = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut files);
    let starts =
        |text: &str| ["thread::spawn(", "thread::scope(", "thread::Builder"].iter().any(|how| text.contains(how));
    let is_test = |file: &str| file.split("::").any(|module| module == "tests");
    let by_library = |text: &str| text.split("\nmod tests {").next().unwrap().replace("thread::spawn(\"fairlock-", "");
    let with = files.iter().filter(|(file, text)| !is_test(file) && starts(&by_library(text)));
    assert_eq!(with.map(|(file, _)| &file[..]).collect::<Vec<_>>(), ["thread"]);
}

/// A forked process would wait for ever for a thread that makes such a value in its parent.
#[test]
fn nothing_in_the_library_can_be_half_made_at_a_fork() {
    let mut files = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut files);
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let waits = |text: &str| {
        let waits =
            |line: &str| ["OnceLock", "LazyLock", "sync::Once", "Once::new"].iter().any(|how| line.contains(how));
        text.lines().filter(is_code).any(waits)
    };
    let is_test = |file: &str| file.split("::").any(|module| module == "tests");
    let with = files.iter().filter(|(file, text)| !is_test(file) && waits(text));
    // A forked process sets no reason for a loss, and looking at it waits for nobody.
    assert_eq!(with.map(|(file, _)| &file[..]).collect::<Vec<_>>(), ["keeper::course", "sync"]);
}

#[test]
fn a_circle_is_found() {
    let circles_of = |arrows: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        circles(&graph)
    };
    assert!(circles_of(&[("a", "b"), ("b", "c"), ("a", "c")]).is_empty());
    let circle = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
    assert_eq!(circles_of(&[("a", "b"), ("b", "c"), ("c", "b"), ("d", "b")]), BTreeSet::from([circle]));
    assert_eq!(paths("use super::{a::{self, B}, c as d};\n"), ["super::a::self", "super::a::B", "super::c"]);
}

/// Which module imports which, under names that `group` gives them.
fn imports(root: &str, group: impl Fn(&str) -> String) -> Graph {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut files = BTreeMap::new();
    read(&root, "", &mut files);
    let mut graph = Graph::new();
    for (module, text) in &files {
        for path in paths(text) {
            let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
            let absolute = match path.split_once("::") {
                Some(("crate", rest)) => rest.to_owned(),
                Some(("super", rest)) => format!("{parent}::{rest}").trim_start_matches("::").to_owned(),
                _ => format!("{module}::{path}"),
            };
            let prefixes = absolute.match_indices("::").map(|(at, _)| &absolute[..at]).chain([&absolute[..]]);
            let Some(to) = prefixes.filter(|prefix| files.contains_key(*prefix)).last() else { continue };
            let (from, to) = (group(module), group(to));
            if from != to {
                graph.entry(from).or_default().insert(to);
            }
        }
    }
    graph
}

/// The code of all modules below this folder, without comments and tests.
fn read(folder: &Path, module: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let inner = if name == "mod" { module.to_owned() } else { format!("{module}::{name}") };
        let inner = inner.trim_start_matches("::");
        if path.is_dir() && !["bin", "tests"].contains(&name) {
            read(&path, inner, files);
        } else if path.is_file() && !["main", "lib"].contains(&name) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            // Who may see an item is no import.
            let code = code.replace("pub(in crate::", "pub(");
            let lines = code.lines().map(|line| line.split("//").next().unwrap());
            files.insert(inner.to_owned(), lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The paths that `use` names, and those that begin with `crate::` elsewhere. (In an inner module `super` is this
/// file.)
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in ["\nuse ", "\npub(crate) use "] {
        for used in format!("\n{code}").split(line).skip(1) {
            expand("", used.split(';').next().unwrap(), &mut found);
        }
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for (at, _) in code.match_indices("crate::") {
        found.push(code[at..].chars().take_while(|c| is_path(*c)).collect());
    }
    found.retain(|path| path.contains("::"));
    found
}

/// `a::{b, c}` stands for `a::b` and `a::c`.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    match tree.trim().split_once('{') {
        Some((start, branches)) if !start.contains(',') => {
            let (mut depth, mut from) = (0, 0);
            for (at, c) in branches.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth > 0 => depth -= 1,
                    ',' | '}' if depth == 0 => {
                        expand(&format!("{prefix}{}", start.trim()), &branches[from..at], found);
                        from = at + 1;
                    }
                    _ => {}
                }
            }
        }
        _ => {
            let path = tree.split(" as ").next().unwrap_or_default().trim();
            if !path.is_empty() {
                found.push(format!("{prefix}{path}"));
            }
        }
    }
}

/// The groups of modules that import each other in circles.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|start| (start, reach(graph, start))).collect();
    let goes_back = |from: &&String, to: &String| reached.get(*from).is_some_and(|reached| reached.contains(to));
    let group = |module| reached[module].iter().filter(|other| goes_back(other, module)).map(|&other| other.clone());
    graph.keys().map(|module| group(module).collect()).filter(|group: &BTreeSet<_>| !group.is_empty()).collect()
}

/// All modules that this one imports, and those that they import.
fn reach<'a>(graph: &'a Graph, start: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
    while let Some(module) = todo.pop() {
        todo.extend(graph.get(module).into_iter().flatten().filter(|next| seen.insert(*next)));
    }
    seen
}
