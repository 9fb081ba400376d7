//! Settings of a program that follow the KubeVirt object while it runs: TLS of its servers, log level, rates
//! of its clients.
//!
//! ```text
//!  WatchMessage ─► installation ─► ProgramSettings ─┬─► Terms   every connection that begins from now on
//!                                                   ├─► the log
//!                                                   └─► Pace    every request from now on
//!          its resourceVersion ─► SettingsVersion ─► /healthz
//! ```
//!
//! A program that watches the KubeVirt object anyway calls [`Dials::see`]; any other one calls
//! [`Dials::follow`]. If the object does not exist, defaults apply. Until that is known, servers speak TLS
//! 1.3 only.

use super::pace::Pace;
use super::program;
use super::settings_version::SettingsVersion;
use super::transport::tls::Terms;
use cluster_client::watch::{WatchMessage, follow};
use cluster_model::config::program::ProgramSettings;
use cluster_model::objects::{Home, Kind, Program};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Settings of a program that can change while it runs.
#[derive(Debug)]
pub struct Dials {
    program: Program,
    home: Home,
    /// Current settings; `None` until the KubeVirt object was listed.
    now: Mutex<Option<ProgramSettings>>,
    /// TLS settings of the program's servers.
    pub terms: Arc<Terms>,
    /// Rate limiter of requests to the API server.
    pub pace: Arc<Pace>,
    /// Rate limiter of requests on behalf of the webhooks.
    pub webhooks: Arc<Pace>,
    /// Version of the KubeVirt object that is in force.
    pub version: Arc<SettingsVersion>,
}

impl Dials {
    /// Settings of a program at this place. Only virt-handler needs the node.
    pub fn new(program: Program, home: Home) -> Arc<Dials> {
        Arc::new(Dials {
            program,
            home,
            now: Mutex::default(),
            terms: Arc::default(),
            pace: Arc::default(),
            webhooks: Arc::default(),
            version: Arc::default(),
        })
    }

    /// Applies an event, if it is about the KubeVirt object of this installation.
    pub fn see(&self, seen: &WatchMessage) {
        if let Some(object) = installation(&self.home.namespace, seen) {
            self.take(ProgramSettings::from_kubevirt(object, self.program, &self.home.node));
            self.version.take(object);
        }
    }

    /// Follows the KubeVirt object. Never returns.
    pub async fn follow(&self, client: kube::Client) {
        let (to, mut seen) = mpsc::channel(4);
        let follows = Kind::KubeVirt.followed_by(self.program, &self.home);
        let follows = follows.into_iter().map(|which| follow(client.clone(), which, to.clone()));
        let follows = futures_util::future::join_all(follows);
        drop(to);
        tokio::join!(follows, async {
            while let Some(seen) = seen.recv().await {
                self.see(&seen);
            }
        });
    }

    fn take(&self, settings: ProgramSettings) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.as_ref() == Some(&settings) {
            return;
        }
        tracing::info!("applying the settings of the KubeVirt object: {settings:?}");
        self.terms.set(settings.tls.clone());
        self.pace.set(settings.rate);
        self.webhooks.set(settings.webhook_rate);
        if now.as_ref().and_then(|now| now.verbosity) != settings.verbosity {
            program::log(settings.verbosity);
        }
        *now = Some(settings);
    }
}

/// KubeVirt object of this namespace according to an event: null if it does not exist, `None` if the event is
/// about other objects.
pub fn installation<'s>(namespace: &str, seen: &'s WatchMessage) -> Option<&'s Value> {
    let is_ours = |object: &Value| object["metadata"]["namespace"] == namespace;
    match seen {
        WatchMessage::Listed(Kind::KubeVirt, objects) => {
            Some(objects.iter().find(|object| is_ours(object)).unwrap_or(&Value::Null))
        }
        WatchMessage::Changed(Kind::KubeVirt, object) => Some(object).filter(|object| is_ours(object)),
        WatchMessage::Gone(key, _) => {
            (key.kind == Kind::KubeVirt && key.namespace == namespace).then_some(&Value::Null)
        }
        WatchMessage::Listed(..) | WatchMessage::Changed(..) | WatchMessage::Only(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::pace::paced;
    use super::*;
    use cluster_model::config::tls::TlsPolicy;
    use cluster_model::objects::Key;
    use serde_json::json;
    use std::time::Duration;
    use tokio::time::timeout;

    fn object(namespace: &str, version: &str) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": "kubevirt"},
            "spec": {"configuration": {"tlsConfiguration": {"minTLSVersion": version}}},
        })
    }

    #[test]
    fn a_program_takes_what_its_own_installation_says() {
        let dials = Dials::new(Program::Api, Home { namespace: "kubevirt".into(), ..Home::default() });
        let only_13 = || dials.terms.now() == TlsPolicy { only_13: true, suites: None };
        assert!(only_13(), "nothing is known yet");
        dials.see(&WatchMessage::Listed(Kind::KubeVirt, vec![object("other", "VersionTLS13")]));
        dials.see(&WatchMessage::Changed(Kind::KubeVirt, object("other", "VersionTLS13")));
        assert!(!only_13(), "another namespace says nothing here");
        let both = vec![object("other", "VersionTLS12"), object("kubevirt", "VersionTLS13")];
        dials.see(&WatchMessage::Listed(Kind::KubeVirt, both));
        assert!(only_13());
        dials.see(&WatchMessage::Listed(Kind::Pod, Vec::new()));
        dials.see(&WatchMessage::Gone(Key::new(Kind::KubeVirt, "other", "kubevirt"), "u".into()));
        assert!(only_13());
        dials.see(&WatchMessage::Gone(Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"), "u".into()));
        assert!(!only_13(), "nobody says anything any more");
        dials.see(&WatchMessage::Changed(Kind::KubeVirt, object("kubevirt", "VersionTLS13")));
        dials.see(&WatchMessage::Listed(Kind::KubeVirt, Vec::new()));
        assert!(!only_13());
    }

    #[test]
    fn the_version_that_holds_is_told() {
        let dials = Dials::new(Program::Api, Home { namespace: "kubevirt".into(), ..Home::default() });
        let told = || {
            let answer: Value = serde_json::from_slice(&dials.version.answer()).unwrap();
            assert_eq!(answer["apiserver"]["connectivity"], "ok");
            answer["config-resource-version"].as_str().unwrap().to_owned()
        };
        assert_eq!(told(), "");
        let mut changed = object("kubevirt", "");
        for version in ["7", "1234567890123456789"] {
            changed["metadata"]["resourceVersion"] = json!(version);
            dials.see(&WatchMessage::Changed(Kind::KubeVirt, changed.clone()));
            assert_eq!(told(), version);
        }
        dials.see(&WatchMessage::Listed(Kind::Pod, Vec::new()));
        assert_eq!(told(), "1234567890123456789");
        dials.see(&WatchMessage::Gone(Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"), "u".into()));
        assert_eq!(told(), "");
    }

    /// A lowest rate that was set by mistake can be reverted: neither the list nor the watch of the object
    /// waits.
    #[tokio::test]
    async fn at_the_least_rate_another_is_seen_while_many_others_wait() {
        let server = kit::ApiServer::default();
        let home = Home { namespace: "kubevirt".into(), ..Home::default() };
        let dials = Dials::new(Program::Controller, home);
        let mut slow = object("kubevirt", "");
        let limiter = json!({"tokenBucketRateLimiter": {"qps": 1e-9, "burst": 1}});
        slow["spec"]["configuration"]["controllerConfiguration"]["restClient"]["rateLimiter"] = limiter;
        dials.see(&WatchMessage::Changed(Kind::KubeVirt, slow));
        let mut others = tokio::task::JoinSet::new();
        for number in 0..40 {
            let pace = Arc::clone(&dials.pace);
            others.spawn(async move {
                while pace.turn(&number.to_string()).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
        server.put_object(Kind::KubeVirt, object("kubevirt", ""));
        let client = paced(server.client(), Arc::clone(&dials.pace));
        let mut follows = {
            let dials = Arc::clone(&dials);
            tokio::spawn(async move { dials.follow(client).await })
        };
        let served = async { while others.join_next().await.is_some() {} };
        tokio::select! {
            served = timeout(Duration::from_secs(3), served) => assert!(served.is_ok(), "they wait"),
            _ = &mut follows => panic!("it is followed for ever"),
        }
        follows.abort();
        assert!(server.rights().contains(&(Kind::KubeVirt, None, "watch")), "{:?}", server.rights());
    }
}
