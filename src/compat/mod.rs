//! Calls that people know from other locks: for programs that come from these, see `docs/coming-from.md`. A new program
//! needs none of them.

mod function;
mod keyed;
mod lease;
mod ownership;

#[doc(hidden)]
pub use self::function::__enclosing;
pub use self::function::Locked;
pub use self::keyed::{KeyGuard, KeyedMutex};
pub use self::lease::{Refreshed, is_locked_by_anyone, is_locked_by_me, refresh, set_automatic_renewal, verify};
pub use self::ownership::Ownership;
#[doc(inline)]
pub use crate::__function_name as function_name;
