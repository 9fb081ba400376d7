//! The only writer to the API server.
//!
//! ```text
//!  Plan ── step by step ──► request ──► answer ──► the World (we read what we wrote)
//!            └─ the first that fails ends it: conflict (look again), refused or out of reach (later, and said)
//! ```
//!
//! **How fields that change hands are kept safe.** Every change is one merge patch of the fields that differ, guarded by
//! the `resourceVersion` that was looked at: if anything in the object has changed since, the server answers 409 and
//! nothing is written. That is stronger than a `test` for single fields, and a conflict has a status of its own. What
//! the patch does not name (other people's fields, fields of a newer version) is not touched.
//! **How nothing is made twice.** Names follow from what an object is made for; one that is there already is fetched.
//! **Where the server is** is [`Writer`]'s affair alone: [`carry_out`] is the same for one in memory.

use crate::cluster::certificates::{Issue, make};
use crate::error::{Error, Kind as Wrong, Result};
use crate::objects::{FOUND_BY, Key, Kind, owner};
use crate::plan::{Note, Plan, Step};
use api::meta::ObjectMeta;
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An API server, one object at a time. What it refuses has its kind: [`Wrong::Exists`], [`Wrong::Gone`],
/// [`Wrong::Conflict`].
pub trait Server: Sync {
    /// The object as it is.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Value>> + Send;

    /// Makes an object.
    fn create(&self, key: &Key, object: &Value) -> impl Future<Output = Result<Value>> + Send;

    /// Changes an object, or the part of it that stands behind a path of its own. A `resourceVersion` in the change is
    /// the one that the object must still have.
    fn patch(
        &self,
        key: &Key,
        change: &Value,
        part: Option<&str>,
    ) -> impl Future<Output = Result<Value>> + Send;

    /// Deletes an object, if it has this uid; where that is empty, whichever it is.
    fn delete(&self, key: &Key, uid: &str) -> impl Future<Output = Result<Value>> + Send;
}

/// Writes to the API server.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    /// Who we are, in events and field managers.
    component: &'static str,
}

/// What came of a plan.
#[derive(Debug, Default)]
pub struct Done {
    /// Objects as they are now.
    pub answers: Vec<(Kind, Value)>,
    /// How many requests changed something.
    pub writes: usize,
    /// Why it ended early, and the kind of what could not be made.
    pub failed: Option<(Option<Kind>, Error)>,
}

/// Does what a plan says, in its order, up to the first step that fails. `component` is who does it, in events.
pub async fn carry_out(server: &impl Server, component: &str, plan: Plan) -> Done {
    let mut work = Work { server, component, versions: BTreeMap::new(), done: Done::default() };
    for step in plan.steps {
        let about = if let Step::Create { key, .. } = &step { Some(key.kind) } else { None };
        if let Err(error) = work.step(step).await {
            work.done.failed = Some((about, error));
            break;
        }
    }
    work.done
}

/// A plan on its way.
struct Work<'a, S> {
    server: &'a S,
    component: &'a str,
    /// A second change of one object goes on from the first one's answer.
    versions: BTreeMap<Key, String>,
    done: Done,
}

impl<S: Server> Work<'_, S> {
    async fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Create { key, object } => {
                let made = match self.server.create(&key, &object).await {
                    Err(error) if error.kind() == Wrong::Exists => {
                        let there = self.server.get(&key).await?;
                        strange(&key, &object, &there)?;
                        there
                    }
                    other => {
                        self.done.writes += 1;
                        other?
                    }
                };
                self.done.answers.push((key.kind, made));
            }
            Step::Patch { key, version, mut change, part } => {
                let version = self.versions.get(&key).cloned().unwrap_or(version);
                if !version.is_empty() {
                    change["metadata"]["resourceVersion"] = json!(version);
                }
                let answer = self.server.patch(&key, &change, part).await?;
                self.done.writes += 1;
                if let Some(version) = answer["metadata"]["resourceVersion"].as_str() {
                    self.versions.insert(key.clone(), version.to_owned());
                }
                self.done.answers.push((key.kind, answer));
            }
            Step::Delete { key, uid } => match self.server.delete(&key, &uid).await {
                Err(error) if error.kind() == Wrong::Gone => {}
                other => {
                    self.done.writes += 1;
                    other?;
                }
            },
            Step::Absent { key, of } => match self.server.get(&key).await {
                Err(error) if error.kind() == Wrong::Gone => {}
                Err(error) => return Err(error),
                Ok(object) if of.is_some_and(|of| !of.is(&meta(&object))) => {}
                Ok(object) => {
                    self.done.answers.push((key.kind, object));
                    return Err(Error::new(Wrong::Conflict, format!("{key} is there; the picture was old")));
                }
            },
            Step::Issue(issue) => {
                let made = self.issue(&issue).await?;
                self.done.writes += 1;
                self.done.answers.push((issue.key.kind, made));
            }
            Step::Tell(note) => self.tell(&note).await,
        }
        Ok(())
    }

    /// Makes a certificate and its secret; that there is one by now is as good.
    async fn issue(&self, issue: &Issue) -> Result<Value> {
        let authority = match &issue.signer {
            Some(signer) => Some(self.server.get(&signer.key).await?),
            None => None,
        };
        let mut secret = make::secret(issue, authority.as_ref())?;
        match &issue.version {
            Some(version) => {
                secret["metadata"]["resourceVersion"] = json!(version);
                self.server.patch(&issue.key, &secret, None).await
            }
            None => match self.server.create(&issue.key, &secret).await {
                Err(error) if error.kind() == Wrong::Exists => self.server.get(&issue.key).await,
                other => other,
            },
        }
    }

    /// Tells people; that nobody could be told is no reason to stop.
    async fn tell(&self, note: &Note) {
        let (object, key) = event(note, self.component, Timestamp::now());
        if let Err(error) = self.server.create(&key, &object).await {
            tracing::warn!("{}", crate::error::chain(&error));
        }
    }
}

/// A pod of that name which is not of the same owner is a stranger's, and so is one that is not found by the same labels:
/// nobody who watches launcher pods would hear of its end. It is never taken for the one that was to be made.
fn strange(key: &Key, wanted: &Value, there: &Value) -> Result<()> {
    let owner = |object: &Value| {
        let meta = meta(object);
        let owner = owner::controller(&meta).cloned();
        owner.map(|owner| (owner.api_version, owner.kind, owner.uid))
    };
    let found_by = |object: &Value| FOUND_BY.map(|label| object["metadata"]["labels"][label].clone());
    if key.kind != Kind::Pod || owner(wanted) == owner(there) && found_by(wanted) == found_by(there) {
        return Ok(());
    }
    let what = format!(
        "{key} is there already, and somebody else made it: delete it, or give the instance another name"
    );
    Err(Error::new(Wrong::Refused, what))
}

fn meta(object: &Value) -> ObjectMeta {
    api::wire::read_in_part(object["metadata"].clone(), &mut Vec::new()).unwrap_or_default()
}

impl Writer {
    /// A writer in the name of one program.
    pub fn new(client: kube::Client, component: &'static str) -> Writer {
        Writer { client, component }
    }

    /// Does what a plan says, in its order, up to the first step that fails.
    pub async fn carry_out(&self, plan: Plan) -> Done {
        carry_out(self, self.component, plan).await
    }

    /// Lets the server look at an object, which is not made.
    pub async fn try_out(&self, key: &Key, object: &Value) -> Result<Value> {
        let path =
            format!("{}?dryRun=All&fieldManager={}", key.kind.collection(&key.namespace), self.component);
        self.send("try out", key, Request::post(path), Some(("application/json", object))).await
    }

    async fn send(
        &self,
        doing: &str,
        key: &Key,
        request: http::request::Builder,
        body: Option<(&str, &Value)>,
    ) -> Result<Value> {
        let (kind, bytes) = match body {
            Some((kind, body)) => (kind, body.to_string().into_bytes()),
            None => ("application/json", Vec::new()),
        };
        let request = request
            .header(http::header::CONTENT_TYPE, kind)
            .body(bytes)
            .map_err(|e| Error::setup(format!("cannot {doing} {key}: its name makes no address"), e))?;
        let verb = request.method().to_string();
        let began = Instant::now();
        let answer = tokio::time::timeout(PATIENCE, self.client.request::<Value>(request)).await;
        crate::metrics::request(&verb, began, answer.as_ref().ok().map(|answer| answer.as_ref()));
        match answer {
            Ok(answer) => answer.map_err(|error| Error::of_client(doing, key, error)),
            Err(_) => {
                let what = format!(
                    "cannot {doing} {key}: the API server did not answer within {} s",
                    PATIENCE.as_secs()
                );
                Err(Error::new(Wrong::Unreachable, what))
            }
        }
    }
}

impl Server for Writer {
    async fn get(&self, key: &Key) -> Result<Value> {
        self.send("read", key, Request::get(key.path()), None).await
    }

    async fn create(&self, key: &Key, object: &Value) -> Result<Value> {
        let path = format!("{}?fieldManager={}", key.kind.collection(&key.namespace), self.component);
        self.send("create", key, Request::post(path), Some(("application/json", object))).await
    }

    async fn patch(&self, key: &Key, change: &Value, part: Option<&str>) -> Result<Value> {
        let below = part.map_or_else(String::new, |part| format!("/{part}"));
        let path = format!("{}{below}?fieldManager={}", key.path(), self.component);
        let kind = match key.kind {
            Kind::Pod => "application/strategic-merge-patch+json",
            _ => "application/merge-patch+json",
        };
        self.send("change", key, Request::patch(path), Some((kind, change))).await
    }

    async fn delete(&self, key: &Key, uid: &str) -> Result<Value> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if !uid.is_empty() {
            options["preconditions"] = json!({"uid": uid});
        }
        self.send("delete", key, Request::delete(key.path()), Some(("application/json", &options))).await
    }
}

fn event(note: &Note, component: &str, now: Timestamp) -> (Value, Key) {
    let Key { kind, namespace, name } = &note.key;
    // Events of what has no namespace are kept in the default one.
    let within = if namespace.is_empty() { "default" } else { namespace };
    let short: String = name.chars().take(200).collect();
    let unique =
        format!("{short}.{:016x}", now.as_nanosecond() as u64 ^ crate::objects::names::fnv(&note.message));
    let seconds = crate::cluster::conditions::stamp(now);
    let object = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": unique, "namespace": within},
        "involvedObject": {
            "apiVersion": kind.api_version(),
            "kind": kind.name(),
            "namespace": namespace,
            "name": name,
            "uid": note.uid,
        },
        "type": if note.warning { "Warning" } else { "Normal" },
        "reason": note.reason,
        "message": note.message.chars().take(1000).collect::<String>(),
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "count": 1,
    });
    (object, Key::new(Kind::Event, within, unique))
}
