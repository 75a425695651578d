//! The public interface on one server that works: what each call promises, what it costs, and what it refuses.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod acl_at_connect;
mod acl_half_rights;
mod acl_least_rights;
mod acl_teams;
mod arrival_order;
mod bursts;
mod busy_callers;
mod calm_locks;
mod cancellation;
mod cleanup;
mod connect_errors;
mod expiring_logins;
mod forks;
mod history;
mod in_process;
mod layouts;
mod leases;
mod long_link;
mod many_holders;
mod operations;
mod panic_and_fork;
mod queue_bound;
mod refusals;
mod runtimes;
mod rw_locks;
mod semaphores;
mod server_costs;
mod several_locks;
mod signals;
mod thread_panics;
