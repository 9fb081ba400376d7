//! Command line of `cdi-uploadproxy`, and the wiring of its parts.

use crate::measures::{self, Measures};
use crate::pod::Pods;
use crate::upload::Uploads;
use clap::Parser;
use cluster_client::Writer;
use cluster_client::error::Result;
use cluster_model::objects::{Home, Program};
use cluster_model::servers::{PORT, PROXY};
use cluster_model::uploads::{BUNDLE, PUBLIC_KEY};
use http::StatusCode;
use serve::authentication::Gate;
use serve::health::Health;
use serve::program::{asked_to_end, client, ends_after};
use serve::settings::Dials;
use serve::token::Verifier;
use serve::transport::tls::{self, CurrentCertificate};
use serve::transport::{
    Answers, Authorities, HttpResponse, IncomingRequest, Limits, Transport, everywhere, listen, plain,
};
use serve::{certificate, mounted};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The name of this program in its requests.
const COMPONENT: &str = PROXY.program;

/// Passes uploads on to the pods that fill PVCs, for clients with a token.
#[derive(Debug, Parser)]
#[command(name = "cdi-uploadproxy", version)]
pub struct Proxy {
    /// The namespace of this program
    #[arg(long, env = "POD_NAMESPACE", default_value = "kubevirt")]
    namespace: String,
    /// HTTPS address for uploads, /healthz, /readyz and /metrics
    #[arg(long, default_value_t = everywhere(PORT))]
    listen: SocketAddr,
    /// Folder of the mounted ConfigMap with the public keys of upload tokens
    #[arg(long, value_name = "FOLDER", default_value = "/etc/cdi-uploadproxy/keys")]
    keys: PathBuf,
    /// Folder of the mounted Secret with the client certificate and key that are shown to upload pods
    #[arg(long, value_name = "FOLDER", default_value = "/etc/cdi-uploadproxy/client")]
    client: PathBuf,
    /// Folder of the mounted ConfigMap with the authorities that sign the certificates of upload pods
    #[arg(long, value_name = "FOLDER", default_value = "/etc/cdi-uploadproxy/authorities")]
    authorities: PathBuf,
    /// Seconds that open uploads may continue after a signal asked the program to end
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    grace_period: u64,
    /// One address for all upload pods instead of DNS: for tests
    #[arg(long, hide = true)]
    pods_at: Option<SocketAddr>,
    /// Seconds for the upload pod to answer after the last byte of an upload: shorter in tests
    #[arg(long, value_name = "SECONDS", default_value_t = 600, hide = true)]
    patience: u64,
}

/// State that follows Secrets, ConfigMaps and the KubeVirt object while the program runs.
struct Live {
    shown: Arc<CurrentCertificate>,
    dials: Arc<Dials>,
    verifier: Arc<Verifier>,
    pods: Arc<Pods>,
}

impl Live {
    fn new(namespace: &str, pods_at: Option<SocketAddr>) -> Result<Live> {
        let pods = Pods { shown: Arc::default(), authorities: Arc::default(), at: pods_at };
        let shown = Arc::new(CurrentCertificate::own(PROXY.program)?);
        let home = Home { namespace: namespace.to_owned(), ..Home::default() };
        let dials = Dials::new(Program::Proxy, home);
        Ok(Live { shown, dials, verifier: Arc::default(), pods: Arc::new(pods) })
    }

    fn is_ready(&self) -> bool {
        self.shown.is_signed() && self.verifier.is_known() && self.pods.are_known()
    }
}

impl Proxy {
    /// Runs until it is asked to end.
    pub async fn run(self) -> Result<()> {
        let live = Arc::new(Live::new(&self.namespace, self.pods_at)?);
        let client = client(&live.dials.pace).await?;
        let health = Health::default();
        let asked = asked_to_end()?;
        let listener = listen(self.listen).await?;
        let goodbye = Duration::from_secs(self.grace_period);
        let transport = Arc::new(Transport::new(Limits { goodbye, ..Limits::of_server() }));
        let measures = Arc::<Measures>::default();
        let patience = Duration::from_secs(self.patience);
        tokio::spawn(self.keep(client.clone(), Arc::clone(&live)));
        let (told, counts) = (Arc::clone(&live), Arc::clone(&measures));
        let is_ready = move || told.is_ready();
        tokio::spawn(measures::tell(counts, Arc::clone(&transport), is_ready, health.measures()));
        let followed = Arc::clone(&live);
        tokio::spawn(health.clone().set_ready_when(move || followed.is_ready()));
        let api = Writer::new(client.clone(), COMPONENT);
        let (verifier, pods) = (Arc::clone(&live.verifier), Arc::clone(&live.pods));
        let uploads = Uploads::new(verifier, api, pods, patience, measures);
        let routes = Arc::new(Routes { health: health.clone(), gate: Gate::new(client), uploads });
        let ended = ends_after(asked, health);
        let config = tls::config(Arc::clone(&live.shown), None, Arc::clone(&live.dials.terms))?;
        tracing::info!("answering on {}", self.listen);
        transport.serve(listener, config, routes, ended).await;
        Ok(())
    }

    /// Follows keys, certificates and the KubeVirt object. Never returns.
    fn keep(&self, client: kube::Client, live: Arc<Live>) -> impl Future<Output = ()> + Send + use<> {
        let (keys, authority) = (self.keys.join(PUBLIC_KEY), self.authorities.join(BUNDLE));
        let shows = ["tls.crt", "tls.key"].map(|name| self.client.join(name));
        let namespace = self.namespace.clone();
        async move {
            let Live { shown, dials, verifier, pods } = &*live;
            tokio::join!(
                dials.follow(client.clone()),
                certificate::follow(client, &namespace, PROXY.secret, Arc::clone(shown)),
                mounted::follow([keys], |[keys]| verifier.take(keys)),
                mounted::follow(shows, |[chain, key]| pods.shown.take_pem(chain, key)),
                mounted::follow([authority], |[authority]| believe(&pods.authorities, authority)),
            );
        }
    }
}

fn believe(authorities: &Authorities, pem: &[u8]) -> Result<()> {
    authorities.take(&String::from_utf8_lossy(pem))
}

/// Request handler: health, metrics and uploads.
struct Routes {
    health: Health,
    gate: Gate,
    uploads: Uploads,
}

impl Answers for Routes {
    async fn answer(&self, asked: IncomingRequest) -> HttpResponse {
        if let Some(answer) = self.health.answer(&asked.head, asked.peer, &self.gate).await {
            return answer;
        }
        match asked.head.uri.path() {
            "/" => plain(
                StatusCode::OK,
                "uploads: POST /v1beta1/upload with the header Authorization: Bearer TOKEN",
            ),
            _ => self.uploads.answer(asked).await,
        }
    }

    fn without_memory(&self, path: &str) -> Option<HttpResponse> {
        self.health.probed(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim;
    use cluster_model::objects::rights::all_rights;
    use kit::ApiServer as Server;
    use serve::transport::Peer;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn every_right_is_used_and_no_other() {
        let server = Server::default();
        let proxy = Proxy::parse_from(["cdi-uploadproxy"]);
        let live = Arc::new(Live::new("kubevirt", None).unwrap());
        let task = tokio::spawn(proxy.keep(server.client(), live));
        let gate = Gate::new(server.client());
        let peer = Peer::of(Ipv4Addr::LOCALHOST.into());
        assert!(gate.check_access(&kit::monitors_request(), peer).await.is_ok());
        let api = Writer::new(server.client(), COMPONENT);
        assert!(claim::ready(&api, "n", "disk").await.is_err(), "there is none");
        let all: BTreeSet<_> = all_rights(Program::Proxy).collect();
        server.until_used(&all).await;
        task.abort();
        server.kept_to(Program::Proxy);
        assert_eq!(server.rights(), all);
    }
}
