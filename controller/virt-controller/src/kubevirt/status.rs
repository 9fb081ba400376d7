//! The status of the KubeVirt object: versions, generations, phase and conditions, as upstream's operator writes them.
//!
//! | | target | observed | phase | conditions |
//! |---|---|---|---|---|
//! | installed | what the manifests say | nothing, until every component is ready | `Deploying` | `DeploymentInProgress` |
//! | whole | | the target | `Deployed` | `AllComponentsReady` |
//! | a component is not ready | the same | the same | `Deployed` | `DeploymentInProgress` |
//! | newer manifests were applied | the newer version | the version before, until every component is ready | `Deploying` | `UpdateInProgress` |

use super::{DAEMONS, DEPLOYMENTS};
use crate::installation::{self, ConditionRow};
use cluster_model::objects::{Component, Kind, World};
use serde_json::{Value, json};

/// State of the installation.
pub(super) struct State<'a> {
    world: &'a World,
    missing: Option<&'a str>,
    /// The version that was complete last, while another one is rolled out; for the message about the update.
    update: Option<String>,
}

impl<'a> State<'a> {
    pub(super) fn new(world: &'a World, object: &Value, missing: Option<&'a str>) -> State<'a> {
        let target = installation::target(world);
        let before = object["status"]["observedKubeVirtVersion"].as_str();
        let update = before.filter(|before| !before.is_empty() && *before != target).zip(missing);
        let update = update
            .map(|(before, missing)| format!("Transitioning from version {before} to {target}: {missing}."));
        State { world, missing, update }
    }

    /// Everything but the conditions.
    pub(super) fn write(&self, status: &mut Value, generation: Option<i64>) {
        let target = installation::target(self.world);
        let registry = installation::registry(self.world);
        let (config, id) = installation::deployment(self.world);
        status["operatorVersion"] = json!(self.world.facts.version);
        status["targetKubeVirtVersion"] = json!(target);
        status["targetDeploymentConfig"] = json!(config);
        status["targetDeploymentID"] = json!(id);
        if let Some(registry) = registry {
            status["targetKubeVirtRegistry"] = json!(registry);
        }
        status["defaultArchitecture"] = json!(api::architecture::Arch::DEFAULT.facts().name);
        match self.missing {
            None => {
                status["phase"] = json!("Deployed");
                status["observedKubeVirtVersion"] = json!(target);
                status["observedDeploymentConfig"] = json!(config);
                status["observedDeploymentID"] = json!(id);
                if let Some(registry) = registry {
                    status["observedKubeVirtRegistry"] = json!(registry);
                }
                status["observedGeneration"] = json!(generation);
            }
            // A phase Deployed stays; components that are missing for a while show in the conditions.
            Some(_) if status["phase"].is_null() || self.update.is_some() => {
                status["phase"] = json!("Deploying");
            }
            Some(_) => {}
        }
        let generations = self.generations();
        if !generations.is_empty() {
            status["generations"] = Value::Array(generations);
        }
    }

    /// The generations of our Deployments and DaemonSets that this status is about.
    fn generations(&self) -> Vec<Value> {
        let home = &self.world.facts.namespace;
        let entry = |kind: Kind, component: &Component| {
            json!({
                "group": kind.group(), "resource": kind.plural(), "namespace": home,
                "name": component.meta.name, "lastGeneration": component.meta.generation.unwrap_or_default(),
            })
        };
        let deployments = DEPLOYMENTS.iter().filter_map(|name| self.world.deployments.get(home, name));
        let daemons = DAEMONS.iter().filter_map(|name| self.world.daemon_sets.get(home, name));
        let deployments = deployments.map(|found| entry(Kind::Deployment, found));
        deployments.chain(daemons.map(|found| entry(Kind::DaemonSet, found))).collect()
    }

    pub(super) fn conditions(&self) -> Vec<ConditionRow<'_>> {
        let created = ("Created", "True", "AllResourcesCreated", "All resources were created.");
        let (available, progressing, degraded, reason, message) = match (self.missing, &self.update) {
            (None, _) => ("True", "False", "False", "AllComponentsReady", "All components are ready."),
            // While pods are replaced one by one, others answer.
            (Some(_), Some(update)) => {
                let answer = installation::answer(self.world, &DEPLOYMENTS, &DAEMONS);
                (if answer { "True" } else { "False" }, "True", "True", "UpdateInProgress", update.as_str())
            }
            (Some(missing), None) => ("False", "True", "True", "DeploymentInProgress", missing),
        };
        let state = [("Available", available), ("Progressing", progressing), ("Degraded", degraded)];
        [created].into_iter().chain(state.map(|(kind, value)| (kind, value, reason, message))).collect()
    }
}
