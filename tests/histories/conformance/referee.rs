//! The server of a replay. Connections, subscriptions and messages are those of a real server; the requests for the
//! scripts of the lock go to the judge, who answers them as it likes.

use std::{
    collections::HashMap,
    io::Write as _,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::Instant,
};

use testkit::{
    RedisServer,
    resp::{Frames, is_push, words},
    root,
};

/// What the judge hears.
pub enum Heard {
    Asked(Asked),
    /// A line of the driver.
    Said(String),
    Ended,
}

/// A request for a script.
pub struct Asked {
    /// The name of the script, or the command itself if it is none of this repository.
    pub verb: String,
    pub by_text: bool,
    pub keys: Vec<String>,
    pub args: Vec<Vec<u8>>,
    pub connection: usize,
    /// When it had been read: later than it was sent.
    pub at: Instant,
    answer: Sender<Option<Vec<u8>>>,
}

impl Asked {
    pub fn text(&self, nth: usize) -> String {
        String::from_utf8_lossy(self.args.get(nth).map_or(b"?", Vec::as_slice)).into_owned()
    }

    /// The frame of an answer. A request that is dropped without one is never answered, nor what follows it on its
    /// connection.
    pub fn frame(&self, frame: Vec<u8>) {
        let _ = self.answer.send(Some(frame));
    }

    /// The connection ends instead of an answer.
    pub fn cut(&self) {
        let _ = self.answer.send(None);
    }
}

pub struct Scripts {
    /// By their texts and by their digests.
    names: HashMap<Vec<u8>, String>,
}

impl Scripts {
    pub fn read() -> Scripts {
        let mut names = HashMap::new();
        for entry in std::fs::read_dir(root().join("lua/rendered")).unwrap() {
            let path = entry.unwrap().path();
            let (name, text) = (path.file_stem().unwrap().to_str().unwrap(), std::fs::read_to_string(&path).unwrap());
            names.insert(redis::Script::new(&text).get_hash().as_bytes().to_vec(), name.to_owned());
            names.insert(text.into_bytes(), name.to_owned());
        }
        Scripts { names }
    }

    fn asked(&self, words: Vec<Vec<u8>>, connection: usize) -> Result<(Asked, Receiver<Option<Vec<u8>>>), ()> {
        let command = words.first().map(|word| String::from_utf8_lossy(word).to_lowercase()).unwrap_or_default();
        let runs = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall"].contains(&&*command);
        // A script without keys is none of a lock.
        if !runs || words.get(2).is_some_and(|count| count == b"0") {
            return Err(());
        }
        let name = words.get(1).and_then(|which| self.names.get(which));
        let (answer, answered) = channel();
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let asked = Asked {
            by_text: command == "eval",
            verb: name.filter(|_| words.get(2).is_some_and(|count| count == b"2")).cloned().unwrap_or(command),
            keys: words.iter().skip(3).take(2).map(text).collect(),
            args: words.into_iter().skip(5).collect(),
            connection,
            at: Instant::now(),
            answer,
        };
        Ok((asked, answered))
    }
}

/// The URL of a port that leads to this server, but for the scripts.
pub fn listen(server: &RedisServer, scripts: &Arc<Scripts>, hear: Sender<Heard>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (socket, scripts) = (server.socket(), scripts.clone());
    std::thread::spawn(move || {
        for (number, client) in (0..).zip(listener.incoming().map_while(Result::ok)) {
            let Ok(server) = UnixStream::connect(&socket) else { continue };
            let (scripts, hear) = (scripts.clone(), hear.clone());
            std::thread::spawn(move || {
                serve(number, &client, &server, &scripts, &hear);
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    format!("redis://{address}/")
}

/// One request after the other, as a server does.
fn serve(number: usize, client: &TcpStream, server: &UnixStream, scripts: &Scripts, hear: &Sender<Heard>) {
    let (replied, replies) = channel();
    let (mut out, from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        for frame in Frames::new(&from) {
            if out.write_all(&frame).is_err() || (!is_push(&frame) && replied.send(()).is_err()) {
                break;
            }
        }
        let _ = out.shutdown(Shutdown::Both);
    });
    let mut frames = Frames::new(client);
    while let Some(frame) = frames.next() {
        match scripts.asked(words(&frame), number) {
            Err(()) => {
                // A message may come meanwhile, which the other thread writes.
                if (&*server).write_all(&frame).is_err() || replies.recv().is_err() {
                    return;
                }
            }
            Ok((asked, answered)) => {
                if hear.send(Heard::Asked(asked)).is_err() {
                    return;
                }
                match answered.recv() {
                    Ok(Some(frame)) if (&*client).write_all(&frame).is_ok() => {}
                    Ok(_) => return,
                    Err(_) => while frames.next().is_some() {},
                }
            }
        }
    }
}
