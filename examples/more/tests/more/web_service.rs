//! No deposit is lost, whichever instance of the service it reaches.

use std::thread;

use testkit::RedisServer;

use crate::{http::ask, program::Program};

#[test]
fn requests_of_a_user_are_served_one_after_the_other() {
    let redis = RedisServer::start();
    let start = || Program::start(env!("CARGO_BIN_EXE_web_service"), &redis, &["127.0.0.1:0"]);
    let instances = [start(), start()];
    let addresses = instances.each_ref().map(|instance| instance.says("listening on "));
    let deposit = |instance: usize, user: usize, amount: u32| {
        let (status, balance) = ask(&addresses[instance], "POST", &format!("/users/{user}/deposit/{amount}"));
        assert_eq!(status, 200, "{balance}");
        balance.parse::<u32>().unwrap()
    };
    thread::scope(|scope| {
        for number in 0..40 {
            scope.spawn(move || deposit(number % 2, number / 20, 1));
        }
    });
    assert_eq!([deposit(0, 0, 0), deposit(1, 1, 0)], [20, 20]);
}

#[test]
fn a_user_whose_turn_does_not_come_is_told_to_try_again() {
    let redis = RedisServer::start();
    let service = Program::start(env!("CARGO_BIN_EXE_web_service"), &redis, &["127.0.0.1:0"]);
    let address = service.says("listening on ");
    let client = fairlock::Client::connect(&redis.url()).blocking().unwrap();
    let _guard = client.lock("user:7").unwrap().acquire().blocking().unwrap();
    assert_eq!(ask(&address, "POST", "/users/7/deposit/1").0, 503);
    assert_eq!(ask(&address, "POST", "/users/8/deposit/1"), (200, "1".into()));
}

#[test]
fn a_user_whose_queue_is_full_is_told_at_once() {
    let redis = RedisServer::start();
    let service = Program::start(env!("CARGO_BIN_EXE_web_service"), &redis, &["127.0.0.1:0"]);
    let address = service.says("listening on ");
    let lock = fairlock::Client::connect(&redis.url()).blocking().unwrap().lock("user:7").unwrap();
    let _guard = lock.acquire().blocking().unwrap();
    let _queue: Vec<_> = (0..32).map(|_| lock.enqueue().blocking().unwrap()).collect();
    assert_eq!(ask(&address, "POST", "/users/7/deposit/1"), (429, "32 of your requests wait already".into()));
    assert_eq!(ask(&address, "POST", "/users/8/deposit/1"), (200, "1".into()));
}
