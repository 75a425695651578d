//! The test kit, tested: a test is worth no more than the server, the fault or the judge that it relies on. Also the
//! form of the source: its files, their imports, pages without broken links; and what is shipped.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod clock;
mod contention;
mod histories;
mod imports;
mod lengths;
mod pages;
mod proxy;
mod public_docs;
mod serve;
mod servers_and_children;
mod sharing;
mod shipped;
mod topologies;
