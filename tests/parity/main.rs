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
