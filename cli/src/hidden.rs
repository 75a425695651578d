//! A password in `--redis URL` leaves the list of processes: fairlock becomes itself once more, with the password
//! replaced in its arguments and the URL in its environment, which other users cannot read.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::process;

/// The URL as it was given. The command of `fairlock run` does not inherit it.
pub(crate) const VARIABLE: &str = "FAIRLOCK_GIVEN_URL";

/// Does not return if the arguments have a password.
pub(crate) fn hide(url: Option<&str>) {
    let Some(url) = url else { return };
    let shown = without_password(url);
    if shown == url {
        return;
    }
    let is_url =
        |word: &OsString| word.to_str().is_some_and(|word| word.strip_prefix("--redis=").unwrap_or(word) == url);
    let mut words: Vec<OsString> = std::env::args_os().collect();
    // Otherwise it comes from the environment.
    let Some(found) = words.iter_mut().find(|word| is_url(word)) else { return };
    *found = if *found == *url { shown.into() } else { format!("--redis={shown}").into() };
    // An error is no reason not to do what was asked for.
    let Ok(binary) = process::own_path() else { return };
    let _ = Command::new(binary).arg0(&words[0]).args(&words[1..]).env(VARIABLE, url).exec();
}

/// The URL that these arguments stand for.
pub(crate) fn given(shown: &str) -> String {
    let given = std::env::var(VARIABLE).ok().filter(|given| without_password(given) == shown);
    given.unwrap_or_else(|| shown.to_owned())
}

/// The same URL with `***` for each password in it.
fn without_password(url: &str) -> String {
    const HIDDEN: &str = "***";
    let (front, query) = url.split_once('?').map_or((url, None), |(front, query)| (front, Some(query)));
    let mut shown = front.to_owned();
    if let Some((scheme, rest)) = front.split_once("://")
        && let Some((login, hosts)) = rest.rsplit_once('@')
        && let Some((user, _)) = login.split_once(':')
    {
        shown = format!("{scheme}://{user}:{HIDDEN}@{hosts}");
    }
    if let Some(query) = query {
        let hide = |parameter: &str| match parameter.split_once('=') {
            Some((name, _)) if name.contains("pass") => format!("{name}={HIDDEN}"),
            _ => parameter.to_owned(),
        };
        let parameters: Vec<String> = query.split('&').map(hide).collect();
        shown = format!("{shown}?{}", parameters.join("&"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn passwords_are_found_wherever_a_url_has_them() {
        for (url, shown) in [
            ("redis://h", "redis://h"),
            ("redis://u@h/2", "redis://u@h/2"),
            ("redis://u:secret@h:1/2", "redis://u:***@h:1/2"),
            ("rediss://:a@b:c@h", "rediss://:***@h"),
            ("redis+cluster://u:secret@a:1,b:2", "redis+cluster://u:***@a:1,b:2"),
            (
                "redis+sentinel://:x@a/m?sentinel_user=s&sentinel_password=y",
                "redis+sentinel://:***@a/m?sentinel_user=s&sentinel_password=***",
            ),
            ("unix:///s?user=u&pass=secret&db=2", "unix:///s?user=u&pass=***&db=2"),
        ] {
            assert_eq!(without_password(url), shown);
            assert_eq!(without_password(shown), shown);
        }
    }
}
