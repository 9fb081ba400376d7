//! A launcher for tests: it reports a state that its test sets, and answers requests as a launcher whose VM has ended.

use crate::client::Client;
use crate::launch;
use crate::place::Home;
use api::launcher::{Answer, Life, State};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

/// The launcher of the VM `vm`.
pub(crate) struct FakeLauncher {
    state: Arc<Mutex<State>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeLauncher {
    /// It listens at the socket of the VM. A request to destroy the VM ends it.
    pub(crate) fn start(home: &Home, life: Life, generation: u64) -> FakeLauncher {
        let socket = launch::client(home, "vm").unwrap().socket().to_owned();
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let state = Arc::new(Mutex::new(State { life, generation, ..State::default() }));
        let asked = Arc::new(Mutex::new(vec![]));
        let launcher = FakeLauncher { state: Arc::clone(&state), asked: Arc::clone(&asked) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (state, asked) = (Arc::clone(&state), Arc::clone(&asked));
                std::thread::spawn(move || serve(stream.unwrap(), &state, &asked));
            }
        });
        launcher
    }

    pub(crate) fn client(home: &Home) -> Client {
        launch::client(home, "vm").unwrap()
    }

    /// Lines of the requests, but for questions.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }
}

fn serve(mut socket: UnixStream, state: &Mutex<State>, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap_or_default();
    loop {
        let mut line = String::new();
        // A client that only looks whether a process listens sends nothing.
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    let text = |state: &State| serde_json::to_string(state).unwrap() + "\n";
    let answer = match &*first {
        line if line.starts_with("GET /v1/state ") => text(&state.lock().unwrap()),
        line if line.starts_with("GET ") => {
            let line = text(&state.lock().unwrap());
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            socket.write_all(format!("{head}{:x}\r\n{line}\r\n", line.len()).as_bytes()).unwrap();
            // Until the client closes the stream.
            drop(reader.read(&mut [0]));
            return;
        }
        line => {
            let (method, _) = line.split_once(' ').unwrap();
            asked.lock().unwrap().push(format!("{method} {body}"));
            if body.contains("destroy") {
                state.lock().unwrap().life = Life::Failed;
            }
            let answer = match method {
                "PUT" => Answer::Ignored { reason: "the VM exists already".into() },
                _ => Answer::Queued,
            };
            serde_json::to_string(&answer).unwrap()
        }
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
    socket.write_all((head + &answer).as_bytes()).unwrap();
}
