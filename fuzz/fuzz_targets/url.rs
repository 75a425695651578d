//! URLs: of one server, of sentinels, of a cluster. Whatever surrounds a password, it is not told.
#![no_main]

use fairlock::__hooks::read_url;
use libfuzzer_sys::fuzz_target;

const PASSWORD: &str = "0pen-sesame";

fuzz_target!(|url: &str| {
    let _ = read_url(url);
    // The fuzzer reads this program too, and calls hosts so.
    if url.to_lowercase().contains(PASSWORD) {
        return;
    }
    // As a password: behind the first user, where there is one, up to the host.
    let is_scheme = |scheme: &str| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        let (user, rest) = rest.split_once('@').unwrap_or(("", rest));
        let user = user.replace(['/', '\\', '?', '#', ':'], "");
        let said = read_url(&format!("{scheme}://{user}:{PASSWORD}@{rest}")).unwrap_or_else(|refused| refused);
        assert!(!said.contains(PASSWORD), "{said}");
    }
});
