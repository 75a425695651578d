//! The commands that the client sends, as a Redis server answers them.

use super::calls;
use super::model::{Entry, Message, Request};
use super::server::Server;
use crate::protocol::Verb;
use crate::server::digests;

/// The version of Redis that the service claims to be. The client decides by it what it may ask for.
const VERSION: &str = "7.2.0";

impl Server {
    /// Answers a command of this connection.
    pub(super) fn answer(&mut self, id: u64, words: &[Vec<u8>]) {
        let texts: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let [command, rest @ ..] = texts.as_slice() else { return };
        let mut messages = Vec::new();
        let reply = match (command.to_ascii_uppercase().as_str(), rest) {
            ("HELLO", ["3", ..]) => b"%1\r\n+proto\r\n:3\r\n".to_vec(),
            ("HELLO", _) => error("NOPROTO the lock service speaks RESP3"),
            ("SELECT", [database]) if *database != "0" => error("ERR DB index is out of range"),
            ("AUTH" | "SELECT", _) => b"+OK\r\n".to_vec(),
            ("PING", _) => b"+PONG\r\n".to_vec(),
            ("CLIENT", ["ID"]) => integer(id),
            ("CLIENT", ["KILL", "ID", other]) => {
                let killed = other.parse().ok().and_then(|other| self.connections.remove(&other));
                integer(killed.iter().len() as u64)
            }
            ("CLIENT", ["SETINFO", ..]) => b"+OK\r\n".to_vec(),
            ("INFO", _) => {
                text(format!("redis_version:{VERSION}\r\nrun_id:{}\r\nrole:master\r\n", self.run_id).as_bytes())
            }
            ("SUBSCRIBE", [channel]) => {
                if let Some(asking) = self.connections.get_mut(&id) {
                    asking.channels.insert((*channel).to_owned());
                }
                [b">3\r\n", &*text(b"subscribe"), &text(channel.as_bytes()), &integer(1)].concat()
            }
            // There are no replicas.
            ("WAIT", _) => integer(0),
            // The service has its own scripts only, and nobody lacks a right.
            ("SCRIPT", ["EXISTS", asked @ ..]) => {
                let answers = asked.iter().map(|digest| integer(digests().iter().any(|own| own == digest).into()));
                [format!("*{}\r\n", asked.len()).into_bytes(), answers.flatten().collect()].concat()
            }
            ("EVAL", ["return 1", ..]) => integer(1),
            ("EVALSHA", [digest, ..]) if digests().last().is_some_and(|rights| rights == digest) => b"*0\r\n".to_vec(),
            ("SCRIPT", ["LOAD", script]) => match verb_of(script) {
                Some(verb) => text(digests()[verb as usize].as_bytes()),
                None => error("ERR the lock service runs only the scripts of this version of fairlock"),
            },
            ("EVAL" | "EVALSHA", [script, ..]) => match verb_of(script) {
                Some(verb) => self.call(verb, &words[2..], &mut messages),
                None => error("NOSCRIPT the lock service runs only the scripts of this version of fairlock"),
            },
            ("HDEL", [lock, field]) => {
                let id = field.strip_prefix('@').unwrap_or_default().to_owned();
                let (answer, _) = self.locks.turn(lock, &Request::Hdel { id }, Entry::default());
                integer((answer.word == "released").into())
            }
            (command, _) => error(&format!("ERR unknown command '{command}'")),
        };
        if let Some(asking) = self.connections.get_mut(&id) {
            asking.stream.out.extend_from_slice(&reply);
        }
        self.publish(&messages);
    }

    /// A script, with the number of its keys, its key, and its arguments.
    fn call(&mut self, verb: Verb, words: &[Vec<u8>], messages: &mut Vec<Message>) -> Vec<u8> {
        let [_, lock, arguments @ ..] = words else { return error("ERR a script has a key") };
        let Some((request, about)) = calls::read(verb, arguments) else {
            return error("ERR these are no arguments of this script");
        };
        let (answer, told) = self.locks.turn(&String::from_utf8_lossy(lock), &request, about);
        *messages = told;
        text(&calls::reply(&answer))
    }

    pub(super) fn publish(&mut self, messages: &[Message]) {
        for (channel, message) in messages {
            let hearing = self.connections.values_mut().filter(|connection| connection.channels.contains(channel));
            let push =
                [b">3\r\n", &*text(b"message"), &text(channel.as_bytes()), &text(&calls::message(message))].concat();
            hearing.for_each(|connection| connection.stream.out.extend_from_slice(&push));
        }
    }
}

/// The verb whose script this is, by its text or its digest.
fn verb_of(script: &str) -> Option<Verb> {
    let is_it = |verb: &Verb| verb.script().text == script || digests()[*verb as usize] == script;
    Verb::ALL.into_iter().find(is_it)
}

fn error(line: &str) -> Vec<u8> {
    format!("-{line}\r\n").into_bytes()
}

fn integer(number: u64) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}
