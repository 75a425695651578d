//! Functions that hold a lock while they run, by default a lock of their own name.

use std::any::type_name;
use std::fmt;

use crate::client::Client;
use crate::error::{InvalidOption, RunError};
use crate::lock::Lock;

/// The path of the enclosing function, such as `"reports::make_nightly"`: a name for its lock.
///
/// This is the path in the source: it changes when the function is renamed or moved, and with it the lock.
///
/// # Examples
/// ```
/// async fn make_nightly(client: &fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
///     let lock = client.lock(fairlock::compat::function_name!())?;
///     lock.acquire().run(|held| async move { println!("token {}", held.token()) }).await?;
///     Ok(())
/// }
/// # mod reports { pub fn name() -> &'static str { fairlock::compat::function_name!() } }
/// # assert!(reports::name().ends_with("::reports::name"));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __function_name {
    () => {{
        fn here() {}
        $crate::compat::__enclosing(::core::any::type_name_of_val(&here))
    }};
}

/// The path of the function that contains the function `here`, also if it is async, or has `here` in a closure.
#[doc(hidden)]
pub fn __enclosing(here: &'static str) -> &'static str {
    let mut path = here.strip_suffix("::here").unwrap_or(here);
    while let Some(outer) = path.strip_suffix("::{{closure}}") {
        path = outer;
    }
    path
}

/// A function that holds a lock while it runs. Cheap to clone if the function is.
///
/// # Examples
/// ```no_run
/// use fairlock::compat::Locked;
///
/// async fn make_report(day: u32) -> usize {
///     // …
/// #   0
/// }
///
/// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let make_report = Locked::by_name(&client, make_report)?;
/// println!("{} bytes", make_report.call(7).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Locked<F> {
    lock: Lock,
    function: F,
}

impl<F> fmt::Debug for Locked<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("lock", &self.lock).finish_non_exhaustive()
    }
}

/// Whether this is the type of a closure, or has one for a parameter: all closures of a function have the same name.
/// What follows `::` after a closure is nested in it, as a function in an async function is.
fn names_closure(type_name: &str) -> bool {
    type_name.split("{{closure}}").skip(1).any(|after| !after.starts_with("::"))
}

impl<F> Locked<F> {
    /// The function, to be called while this lock is held. No round trip.
    pub fn new(lock: Lock, function: F) -> Self {
        Self { lock, function }
    }

    /// The function, to be called while the lock of its name is held. The name is its path in the source, such as
    /// `reports::make_nightly`. A closure has no name: give it one with [`new`](Self::new). No round trip.
    ///
    /// # Errors
    /// [`InvalidOption`] if its name cannot be that of a lock: it is a closure, or a function that is generic over one;
    /// or its name is longer than 512 bytes.
    pub fn by_name(client: &Client, function: F) -> Result<Self, InvalidOption> {
        let name = type_name::<F>();
        if names_closure(name) {
            return Err(InvalidOption::Closure { name: name.into() });
        }
        Ok(Self::new(client.lock(name)?, function))
    }

    /// The lock that it takes.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Acquires the lock, calls the function with this argument (a tuple, if it needs several), and releases the lock,
    /// see [`Acquire::run`](crate::Acquire::run). Two round trips if the lock is free. For a try, run the function under
    /// its [`lock`](Self::lock).
    ///
    /// # Errors
    /// As [`Acquire::run`](crate::Acquire::run).
    ///
    /// # Cancel safety
    /// If the future is dropped, the call is dropped and the lock is released.
    pub async fn call<A, Fut, T>(&self, argument: A) -> Result<T, RunError>
    where
        F: Fn(A) -> Fut,
        Fut: Future<Output = T>,
    {
        self.lock.acquire().run(move |_| (self.function)(argument)).await
    }

    /// Acquires the lock on the spot and calls a function that is not async, see
    /// [`Acquire::run_blocking`](crate::Acquire::run_blocking).
    ///
    /// # Errors
    /// As [`Acquire::run_blocking`](crate::Acquire::run_blocking).
    pub fn call_blocking<A, T>(&self, argument: A) -> Result<T, RunError>
    where
        F: Fn(A) -> T,
    {
        self.lock.acquire().run_blocking(|_| (self.function)(argument))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    async fn function<T>(_: T) {}

    struct Job;

    impl Job {
        async fn method((): ()) {}

        fn name_of_nested() -> Option<&'static str> {
            fn nested() {}
            name_of(nested)
        }
    }

    trait Work {
        async fn work((): ()) {}
    }

    impl Work for Job {}

    /// The last part of the name that its lock would have.
    fn name_of<F>(function: F) -> Option<&'static str> {
        let client = Client::connect_lazy("redis://127.0.0.1:1/").unwrap();
        match Locked::by_name(&client, function) {
            Ok(locked) => {
                assert_eq!(locked.lock().name(), type_name::<F>());
                Some(type_name::<F>().rsplit("tests::").next().unwrap())
            }
            Err(InvalidOption::Closure { .. }) => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn every_function_has_a_name() {
        assert_eq!(name_of(function::<u8>), Some("function<u8>"));
        assert_eq!(name_of(Job::method), Some("Job::method"));
        assert_eq!(name_of(<Job as Work>::work), Some("Work>::work"));
        assert_eq!(Job::name_of_nested(), Some("Job::name_of_nested::nested"));
    }

    #[test]
    fn function_nested_in_an_async_function_or_in_a_closure_has_a_name() {
        async fn outer() -> [Option<&'static str>; 3] {
            async fn nested((): ()) {}
            struct Local;
            impl Local {
                async fn method((): ()) {}
            }
            [name_of(nested), name_of(Local::method), name_of(function::<Local>)]
        }
        let names = pollster::block_on(outer()).map(|name| name.unwrap().rsplit("outer::").next().unwrap());
        assert_eq!(names, ["{{closure}}::nested", "{{closure}}::Local::method", "{{closure}}::Local>"]);
        let in_closures = || {
            || {
                fn nested() {}
                name_of(nested)
            }
        };
        assert!(in_closures()().unwrap().ends_with("::{{closure}}::{{closure}}::nested"));
    }

    #[test]
    fn closures_and_functions_that_are_generic_over_them_have_no_names() {
        fn generic_over<T>(_: T) -> Option<&'static str> {
            name_of(function::<T>)
        }
        let closure = || ();
        assert_eq!(generic_over(closure), None);
        assert_eq!(name_of(closure), None);
        assert_eq!(name_of(&closure), None);
        assert_eq!(name_of(async |(): ()| ()), None);
        let inner = || name_of(|| ());
        assert_eq!(inner(), None);
        assert_eq!(pollster::block_on(async { name_of(|| ()) }), None);
    }
}
