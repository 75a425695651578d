//! Other locks: a module for each of the four that fairlock grew out of, named after it, one for the others, and
//! one with whole classes. They play what users rely on, as `docs/coming-from.md` describes it.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod async_redis_keyed_mutex;
mod classes;
mod cluster_lock;
mod distributed_lock;
mod others;
mod redis_fair_lock;

/// The page has a section for each module.
#[test]
fn each_module_has_its_section() {
    let page = include_str!("../../docs/coming-from.md").to_lowercase();
    let modules = include_str!("main.rs").lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(";"));
    for module in modules.filter(|module| !["classes", "others"].contains(module)) {
        assert!(page.contains(&format!("\n## {}\n", module.replace('_', ""))), "{module} has no section");
    }
}
