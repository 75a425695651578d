use crate::clock::Time;
use crate::credentials::Credentials;
use crate::server::endpoint::Endpoint;
use crate::server::target::Target;

fn refusal(url: &str) -> String {
    Target::parse(url).map_or_else(|error| error.to_string(), |target| format!("honoured: {target:?}"))
}

fn server(url: &str) -> Endpoint {
    match Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")) {
        Target::Server(server) => server,
        other => panic!("{other:?}"),
    }
}

/// User, password, database.
fn settings(url: &str) -> (Option<(String, String)>, i64) {
    let server = server(url);
    let login = server.login.as_ref().map(|login| {
        let Credentials { user, password, .. } = login.credentials(Time::now()).unwrap();
        (user, password)
    });
    (login, server.database)
}

#[test]
fn database_is_in_the_path_or_a_parameter() {
    for (url, database) in [
        ("redis://h", 0),
        ("redis://h/", 0),
        ("redis://h/2", 2),
        ("redis://h/2/", 2),
        ("redis://h/?db=2", 2),
        ("redis://h?db=2", 2),
        ("redis://h/2?db=2", 2),
        ("redis://h/?protocol=resp3&db=2", 2),
        ("valkey://u:p@h/2", 2),
        ("unix:///s?db=2", 2),
        ("redis+unix:///s?protocol=3&db=2", 2),
    ] {
        assert_eq!(settings(url).1, database, "{url}");
    }
    let Target::Sentinel(sentinels) = Target::parse("redis+sentinel://h/m?db=2").unwrap() else { panic!("sentinels") };
    assert_eq!(sentinels.master.database, 2);
    for (url, why) in [
        ("redis://h/1?db=2", "name two databases"),
        ("redis+sentinel://h/m/1?db=2", "name two databases"),
        ("redis://h/?db=1&db=1", "comes twice"),
        ("redis://h/x", "not a number"),
        ("redis://h/-1", "not a number"),
        ("redis://h/+1", "not a number"),
        ("redis://h/?db=", "not a number"),
        ("redis://h/99999999999999999999", "not a number"),
        ("redis+cluster://h/?db=0", "its parameter \"db\" is not known"),
        ("redis+cluster://h/0", "a cluster has no databases"),
    ] {
        assert!(refusal(url).contains(why), "{url}: {}", refusal(url));
    }
}

#[test]
fn login_is_decoded_and_its_parts_may_be_empty() {
    let login = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
    for (url, expected) in [
        ("redis://h", None),
        ("redis://@h", None),
        ("redis://:@h", None),
        ("redis://:p@h", login("default", "p")),
        // A user that needs no password. It was left out once.
        ("redis://u@h", login("u", "")),
        ("redis://u:@h", login("u", "")),
        ("redis://u:a:b@c@h", login("u", "a:b@c")),
        ("redis://%75:57%23Wc%3f%25%40%2F%3A+@h", login("u", "57#Wc?%@/:+")),
        ("redis://u:50%zz@h", login("u", "50%zz")),
        ("unix:///s?user=u&pass=a%26b+c", login("u", "a&b+c")),
        ("unix:///s?pass=p", login("default", "p")),
        ("unix:///s?user=u", login("u", "")),
        ("unix://u:p@/s", login("u", "p")),
    ] {
        assert_eq!(settings(url).0, expected, "{url}");
    }
    let url = "redis+sentinel://h/m?sentinel_user=s";
    let Target::Sentinel(sentinels) = Target::parse(url).unwrap() else { panic!("sentinels") };
    assert!(sentinels.sentinels[0].login.is_some() && sentinels.master.login.is_none());
    assert!(refusal("unix://u:p@/s?pass=p").contains("two logins"));
}

#[test]
fn hosts_ports_and_sockets_are_as_they_are_written() {
    for (url, address) in [
        ("redis://h", "h:6379"),
        ("redis://H.example:1", "H.example:1"),
        (" redis://h:1/\n", "h:1"),
        ("REDIS://h:1", "h:1"),
        ("redis://[::1]", "[::1]:6379"),
        ("redis://[fe80::1%25eth0]:7", "[fe80::1%eth0]:7"),
        ("unix:///a%20b/c@d", "/a b/c@d"),
    ] {
        assert_eq!(server(url).to_string(), address, "{url}");
    }
    for (url, why) in [
        ("redis://", "its host is missing"),
        ("redis://:1", "its host is missing"),
        ("redis:///2", "its host is missing"),
        ("redis+cluster://", "its host is missing"),
        ("redis+cluster://a:1,,b:2", "its host is missing"),
        ("redis+sentinel://a:1,/m", "its host is missing"),
        ("redis://a,b", "several hosts need"),
        ("redis://h:", "its port is not a number"),
        ("redis://h:65536", "its port is not a number"),
        ("redis://h:-1", "its port is not a number"),
        ("redis://u:secret@h:port", "its port is not a number"),
        ("redis://::1", "no brackets"),
        ("redis://[h]", "no host has"),
        ("redis://h%41", "no host has"),
        ("redis://a b", "has a space"),
        ("redis://h/\t1", "has a space or a control character"),
        ("unix://tmp/s", "a third slash begins its path"),
        ("redis+sentinel://a:1", "the name of the master is missing"),
        ("redis+sentinel://a:1/%ff", "not UTF-8"),
        ("redis+ring://a:1", "its scheme is not known"),
        ("rediss+unix:///s", "its scheme is not known"),
        ("h:1", "does not begin with a scheme"),
    ] {
        assert!(refusal(url).contains(why) && !refusal(url).contains("secret"), "{url}: {}", refusal(url));
    }
}

#[test]
fn part_without_a_use_is_refused_with_its_name() {
    for form in ["redis://u:p@h/?", "rediss://h?", "unix:///s?", "redis+sentinel://h/m?", "redis+cluster://h?"] {
        for name in ["password", "timeout", "ssl_cert_reqs", "DB"] {
            let said = refusal(&format!("{form}{name}=x"));
            let no_tls = !cfg!(feature = "tls") && form.starts_with("rediss");
            assert!(said.contains(&format!("its parameter {name:?} is not known")) || no_tls, "{form}{name}: {said}");
        }
        assert!(refusal(&format!("{form}protocol=2")).contains("another version than 3") || form.starts_with("rediss"));
    }
    for url in ["redis://h/#x", "redis://h/2#", "unix:///s#x", "redis+cluster://h#x", "redis+sentinel://h/m#x"] {
        assert!(refusal(url).contains("it has a #"), "{url}: {}", refusal(url));
    }
}

/// A password that is not written as in a URL makes parts of its own.
#[test]
fn no_error_tells_a_part_of_a_password_and_each_says_how_to_write_it() {
    for password in [
        "57421#Wc",
        "57421?Wc",
        "57421/Wc",
        "57421?db=Wc",
        "57421?Wc=1",
        "57421?Wc=1&2",
        "#Wc",
        "Wc#",
        "a?Wc",
        "a/Wc",
        "57%ffWc",
        "57421/2?Wc",
    ] {
        for [front, back] in [
            ["redis://worker:", "@h/"],
            ["redis+cluster://worker:", "@h"],
            ["redis+sentinel://worker:", "@h/m"],
            ["redis+sentinel://h/m?sentinel_password=", "@h"],
            ["redis+sentinel://h/m?sentinel_user=worker&sentinel_password=", "&Wc=1"],
        ] {
            let said = refusal(&format!("{front}{password}{back}"));
            let tells = ["57421", "Wc", "honoured"].iter().any(|part| said.contains(part));
            assert!(!tells && said.contains("%23 for #"), "{front}{password}{back}: {said}");
        }
    }
    let said = refusal("unix:///s?pass=a&Wc");
    assert!(!said.contains("Wc") && said.contains("%23 for #"), "{said}");
}
