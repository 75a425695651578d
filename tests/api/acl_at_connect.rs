//! What `Client::connect` finds out about rights, from Redis 7 on, and what it cannot find out. `acl_half_rights` takes
//! each right away in turn.

use fairlock::{
    Client,
    error::{AcquireError, ConnectError, Fault},
};
use testkit::{
    RedisServer, keys_left_after,
    run::{lacks, least_rights},
    soon,
};

const LACKS: &str = "a server that can be asked for rights";

/// The rights of the guide but this one, for a standalone server.
fn all_but(right: &str) -> String {
    least_rights("pw", false).replace(&format!(" {right} "), " ")
}

async fn refusal(server: &RedisServer, prefix: &str) -> String {
    let connect = Client::builder().url(&server.url_as("worker", "pw")).prefix(prefix).connect();
    match soon(connect).await {
        Err(error @ ConnectError::MissingRight { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn set_user(server: &RedisServer, rules: &[&str]) {
    redis::cmd("ACL").arg("SETUSER").arg("worker").arg(rules).exec(&mut server.raw()).unwrap();
}

/// The line of the error gives what is missing, all of it.
#[tokio::test]
async fn the_error_names_the_rule_that_gives_the_rights() {
    if lacks(LACKS, (7, 0)) {
        return;
    }
    let rules = all_but("+zadd").replace(" +time ", " ").replace(" +publish", "");
    let server = RedisServer::builder().plain().user("worker", &rules).start();
    let said = refusal(&server, "fairlock").await;
    assert!(said.contains("worker may not run time, zadd, publish"), "{said}");
    let (_, rule) = said.split_once("ACL SETUSER worker ").unwrap_or_else(|| panic!("{said}"));
    let rules: Vec<&str> = rule.split(' ').take_while(|rule| rule.starts_with('+')).collect();
    set_user(&server, &rules);
    let client = soon(Client::connect(&server.url_as("worker", "pw"))).await.unwrap();
    soon(client.lock("x").unwrap().acquire()).await.unwrap().release().await.unwrap();
    keys_left_after(client, &server);
}

#[tokio::test]
async fn another_prefix_has_keys_and_channels_of_its_own() {
    if lacks(LACKS, (7, 0)) {
        return;
    }
    let of_team = |rules: String| rules.replace("~fairlock:*", "~team:*").replace("&fairlock:*", "&team:*");
    let server = RedisServer::builder().plain().user("worker", &of_team(all_but("+zrank"))).start();
    let said = refusal(&server, "team").await;
    assert!(said.contains("worker may not run zrank;"), "{said}");
    set_user(&server, &["+zrank"]);
    let connect = Client::builder().url(&server.url_as("worker", "pw")).prefix("team").connect();
    let client = soon(connect).await.unwrap();
    soon(client.lock("x").unwrap().acquire()).await.unwrap().release().await.unwrap();
    keys_left_after(client, &server);
}

/// Whether it lacks a command or the key of another lock cannot be told apart, so it is not refused for it.
#[tokio::test]
async fn a_user_of_some_locks_connects() {
    let rules = least_rights("pw", false).replace("~fairlock:*", "~fairlock:{team-*");
    let server = RedisServer::builder().plain().user("worker", &rules).start();
    let client = soon(Client::connect(&server.url_as("worker", "pw"))).await.unwrap();
    let lock = client.lock("team-x").unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let waiting = soon(lock.enqueue()).await.unwrap();
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    match soon(client.lock("x").unwrap().acquire()).await.map(|_| ()) {
        Err(AcquireError::Fault(fault @ Fault::Refused { .. })) => {
            assert!(fault.to_string().contains("key"), "{fault}")
        }
        other => panic!("{other:?}"),
    }
    if !lacks(LACKS, (7, 0)) {
        set_user(&server, &["-time"]);
        let said = refusal(&server, "fairlock").await;
        assert!(said.contains("worker may not run time;"), "it takes no key: {said}");
    }
    keys_left_after((lock, client), &server);
}

/// From Redis 7 on the scripts ask for rights, and a server cannot be asked for a command that it does not know: its error
/// names none.
#[tokio::test]
async fn a_command_that_is_switched_off_is_named_and_is_no_missing_right() {
    if lacks(LACKS, (7, 0)) {
        return;
    }
    for command in ["ZADD", "ZREM", "HDEL", "PEXPIRE", "ZRANK"] {
        let server = RedisServer::builder().plain().config(&format!("rename-command {command} \"\"")).start();
        match soon(Client::connect(&server.admin_url())).await.map(drop) {
            Err(error @ ConnectError::Refused { .. }) => {
                assert!(error.to_string().contains(&format!("it does not know {command}: renamed")), "{error}");
            }
            other => panic!("{command}: {other:?}"),
        }
    }
}

/// An operator takes a right away or disables the user while its client waits, and undoes that.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_its_place_while_its_user_may_not_connect() {
    for (away, back) in [("-del", "+del"), ("off", "on")] {
        if away == "-del" && lacks(LACKS, (7, 0)) {
            continue;
        }
        let server = RedisServer::builder().plain().user("worker", &least_rights("pw", false)).start();
        let holder = soon(Client::connect(&server.admin_url())).await.unwrap().lock("lock").unwrap();
        let guard = soon(holder.acquire()).await.unwrap();
        let client = soon(Client::connect(&server.url_as("worker", "pw"))).await.unwrap();
        let waiting = soon(client.lock("lock").unwrap().enqueue()).await.unwrap();
        let ticket = waiting.ticket();

        set_user(&server, &[away]);
        let _: u32 = redis::cmd("CLIENT").arg("KILL").arg("USER").arg("worker").query(&mut server.raw()).unwrap();
        // A newcomer has no place that it could lose, so it fails at once.
        match soon(client.lock("other").unwrap().acquire()).await.map(|_| ()) {
            Err(AcquireError::Fault(Fault::Connect(error @ ConnectError::MissingRight { .. }))) => {
                assert!(error.to_string().contains(back), "{error}");
            }
            Err(AcquireError::Fault(Fault::Connect(ConnectError::Authentication { .. }))) if away == "off" => {}
            other => panic!("{other:?}"),
        }
        set_user(&server, &[back]);
        soon(guard.release()).await.unwrap();
        let guard = soon(waiting).await.unwrap();
        assert_eq!(guard.ticket(), ticket);
        guard.release().await.unwrap();
    }
}
