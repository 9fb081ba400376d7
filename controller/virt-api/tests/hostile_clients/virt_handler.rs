//! A simulated virt-handler of one node with the consoles of its guests. `echo…` sends `login: ` and repeats
//! the input, `loud…` writes without end, `shut…` never opens, and all others are silent.

use crate::authority::{Authority, Identity};
use api::launcher::STREAM;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response, StatusCode};
use serve::transport::tls::{self, CurrentCertificate};
use serve::transport::{
    Answers, Authorities, HttpResponse, IncomingRequest, Limits, Transport, Upgraded, listen, plain,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

pub(crate) const HANDLER: &str = "virt-handler.kubevirt.svc";

pub(crate) struct VirtHandler {
    pub(crate) port: u16,
    pub(crate) shown: Arc<CurrentCertificate>,
    pub(crate) authorities: Arc<Authorities>,
    guests: Arc<Guests>,
    _ends: watch::Sender<bool>,
}

struct Guests {
    /// Consoles that are open, or will never be opened.
    open: watch::Sender<usize>,
}

impl VirtHandler {
    pub(crate) async fn begin(ours: &Authority, identity: &Identity) -> VirtHandler {
        let (shown, authorities) =
            (Arc::new(CurrentCertificate::default()), Arc::new(Authorities::default()));
        shown.take(&identity.secret()).unwrap();
        authorities.take(&ours.pem).unwrap();
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = tls::config(Arc::clone(&shown), Some(Arc::clone(&authorities)), Arc::default()).unwrap();
        let guests = Arc::new(Guests { open: watch::channel(0).0 });
        let (ends, ended) = watch::channel(false);
        let answers = Arc::clone(&guests);
        tokio::spawn(async move {
            Transport::new(Limits::of_program()).serve(listener, config, Arc::new(For(answers)), ended).await;
        });
        VirtHandler { port, shown, authorities, guests, _ends: ends }
    }

    /// Waits until so many consoles are open.
    pub(crate) async fn has_open(&self, consoles: usize) {
        let mut open = self.guests.open.subscribe();
        let waited = tokio::time::timeout(crate::client::LONG, open.wait_for(|open| *open == consoles)).await;
        assert!(waited.is_ok(), "{} consoles are open, not {consoles}", *self.guests.open.borrow());
    }
}

struct For(Arc<Guests>);

impl Answers for For {
    async fn answer(&self, mut asked: IncomingRequest) -> HttpResponse {
        if !asked.client.as_ref().is_some_and(|client| client.is_called(crate::client::VIRT_API)) {
            return plain(StatusCode::UNAUTHORIZED, "only virt-api is answered");
        }
        let name = asked.head.uri.path().split('/').nth(5).unwrap_or_default().to_owned();
        if name.starts_with("shut") {
            self.0.open.send_modify(|open| *open += 1);
            return std::future::pending().await;
        }
        let upgrade = match asked.upgrade() {
            Ok(upgrade) => upgrade,
            Err(answer) => return answer,
        };
        let guests = Arc::clone(&self.0);
        tokio::spawn(async move {
            if let Ok(stream) = upgrade.begin().await {
                guests.open.send_modify(|open| *open += 1);
                // The reader has gone.
                let _ = guest(&name, stream).await;
                guests.open.send_modify(|open| *open -= 1);
            }
        });
        let mut answer = Response::new(Vec::new().into());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        answer.headers_mut().insert(UPGRADE, HeaderValue::from_static(STREAM));
        answer
    }
}

async fn guest(name: &str, mut stream: Upgraded) -> std::io::Result<()> {
    if name.starts_with("loud") {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let writes = async {
            let words = [b'x'; 16 << 10];
            loop {
                writer.write_all(&words).await?;
                writer.flush().await?;
            }
        };
        return tokio::select! {
            done = writes => done,
            read = reader.read_u8() => read.map(drop),
        };
    }
    if name.starts_with("echo") {
        stream.write_all(b"login: ").await?;
        stream.flush().await?;
    }
    let mut piece = [0; 4 << 10];
    loop {
        match stream.read(&mut piece).await? {
            0 => {
                // As a launcher does: its close frame comes in its own time.
                let _ = tokio::time::timeout(Duration::from_secs(1), stream.shutdown()).await;
                return Ok(());
            }
            size if name.starts_with("echo") => {
                stream.write_all(&piece[..size]).await?;
                stream.flush().await?;
            }
            _ => {}
        }
    }
}
