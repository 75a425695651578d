//! Spots at which a test holds a thread of this process, or lets it panic: half way through something, or with a mutex
//! in its hand. Without the hooks of tests they are nothing.

#[cfg(not(feature = "__test-hooks"))]
#[inline(always)]
pub(crate) fn reach(_spot: &str) {}

#[cfg(feature = "__test-hooks")]
pub(crate) use hooked::{at_spots, reach};

#[cfg(feature = "__test-hooks")]
mod hooked {
    use once_cell::race::OnceBox;

    type Act = Box<dyn Fn(&str) + Send + Sync>;

    static ACT: OnceBox<Act> = OnceBox::new();

    pub(crate) fn reach(spot: &str) {
        if let Some(act) = ACT.get() {
            act(spot);
        }
    }

    /// From now on each thread of this process does this at each spot.
    pub(crate) fn at_spots(act: impl Fn(&str) + Send + Sync + 'static) {
        assert!(ACT.set(Box::new(Box::new(act))).is_ok(), "only one test of a process does something at spots");
    }
}
