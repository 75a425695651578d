//! Other locks: each module is named after one, and plays what its users rely on, as `docs/coming-from.md` describes
//! it.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod async_redis_keyed_mutex;
mod cluster_lock;
mod curator;
mod distributed_lock;
mod etcd;
mod redis_fair_lock;
mod redis_py_lock;
mod redisson;
mod rslock;

/// The page has a section for each module.
#[test]
fn each_module_has_its_section() {
    let page = include_str!("../../docs/coming-from.md");
    let lower = |title: &str| title.to_lowercase().replace(|c: char| !c.is_ascii_lowercase(), "");
    let sections: Vec<String> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(lower).collect();
    for module in include_str!("main.rs").lines().filter_map(|line| line.strip_prefix("mod ")) {
        let name = lower(module);
        assert!(
            sections.iter().any(|section| section.starts_with(&name)),
            "{module} has no section among {sections:?}"
        );
    }
}

/// The tests run what the page shows, but for the address of the server.
#[test]
fn the_ported_examples_are_those_of_the_page() {
    let page = include_str!("../../docs/coming-from.md");
    let ported = [
        ("redis-py Lock", include_str!("redis_py_lock.rs")),
        ("rslock", include_str!("rslock.rs")),
        ("Redisson RFairLock", include_str!("redisson.rs")),
        ("etcd Mutex", include_str!("etcd.rs")),
        ("Curator InterProcessMutex", include_str!("curator.rs")),
    ];
    for (title, module) in ported {
        let section = page.split("\n## ").find(|section| section.lines().next() == Some(title)).unwrap();
        let blocks = section.split("```rust,ignore\n").skip(1).map(|block| block.split("```").next().unwrap());
        // Theirs may be in Rust too.
        let ours = blocks.filter(|block| !block.contains("rslock::")).last().expect("an example");
        let test = module.split("fn the_ported_example").nth(1).expect("a test of it");
        let missing = |line: &&str| !line.contains("Client::connect(") && !test.contains(line.trim());
        assert_eq!(ours.lines().find(missing), None, "the example of {title} is another one in its test");
    }
}
