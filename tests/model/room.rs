//! Lua allows a function 200 locals. A script that has nearly as many fails to compile with the next change, so each has
//! some left.

use testkit::RedisServer;

const LEFT: usize = 25;

#[test]
fn each_script_has_room_for_more_locals() {
    let server = RedisServer::start();
    let mut connection = server.raw();
    let more = (0..LEFT).map(|number| format!("local more{number}\n")).collect::<String>();
    for (name, text) in fairlock::__hooks::scripts_of(|_, text| text.to_owned()) {
        let loaded = redis::cmd("SCRIPT").arg("LOAD").arg(format!("{more}{text}")).query::<String>(&mut connection);
        loaded.unwrap_or_else(|error| panic!("{name} has fewer than {LEFT} locals left: {error}"));
    }
}
