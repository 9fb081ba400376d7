//! Taints, spread, name servers, probes and facts.

use crate::meta::LabelSelector;
use crate::object;
use crate::pod::NumberOrName;
use crate::quantity::Quantity;

object! {
    /// Taints of nodes that are no hindrance.
    pub struct Toleration {
        /// The taint's name; not said is any.
        pub key: Option<String> = "key",
        /// `Equal` or `Exists`; not said is `Equal`.
        pub operator: Option<String> = "operator",
        /// The taint's value.
        pub value: Option<String> = "value",
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`; not said is any.
        pub effect: Option<String> = "effect",
        /// How many seconds a taint is no hindrance that came later; not said is for ever.
        pub toleration_seconds: Option<i64> = "tolerationSeconds",
    }
}

object! {
    /// How pods that are alike are spread over the cluster.
    pub struct TopologySpread {
        /// By how many pods two places may differ.
        pub max_skew: i64 = "maxSkew",
        /// The label that the nodes of a place have in common.
        pub topology_key: String = "topologyKey",
        /// `DoNotSchedule` or `ScheduleAnyway`.
        pub when_unsatisfiable: String = "whenUnsatisfiable",
        /// Labels of the pods that count.
        pub label_selector: Option<LabelSelector> = "labelSelector",
        /// How many places there must be.
        pub min_domains: Option<i64> = "minDomains",
        /// `Honor` or `Ignore`: whether only the nodes count that it could run on.
        pub node_affinity_policy: Option<String> = "nodeAffinityPolicy",
        /// `Honor` or `Ignore`: whether only nodes without hindrance count.
        pub node_taints_policy: Option<String> = "nodeTaintsPolicy",
        /// Labels that the pods must have in common with this one.
        pub match_label_keys: Vec<String> = "matchLabelKeys",
    }
}

object! {
    /// Name servers and search domains.
    pub struct DnsConfig {
        /// Addresses of name servers.
        pub nameservers: Vec<String> = "nameservers",
        /// Domains that are tried behind a short name.
        pub searches: Vec<String> = "searches",
        /// Options of the resolver.
        pub options: Vec<DnsOption> = "options",
    }
}

object! {
    /// An option of the resolver.
    pub struct DnsOption {
        /// Its name: `ndots`.
        pub name: Option<String> = "name",
        /// Its value.
        pub value: Option<String> = "value",
    }
}

object! {
    /// A program that says by its exit code whether all is well.
    pub struct Exec {
        /// The program and its arguments.
        pub command: Vec<String> = "command",
    }
}

object! {
    /// A request that is answered from 200 to 399 when all is well.
    pub struct HttpGet {
        /// The path that is asked for.
        pub path: Option<String> = "path",
        /// The port.
        pub port: NumberOrName = "port",
        /// The host; not said is the pod's address.
        pub host: Option<String> = "host",
        /// `HTTP` or `HTTPS`; not said is `HTTP`.
        pub scheme: Option<String> = "scheme",
        /// Further lines of the request's head.
        pub http_headers: Vec<HttpHeader> = "httpHeaders",
    }
}

object! {
    /// A line of a request's head.
    pub struct HttpHeader {
        /// Its name.
        pub name: String = "name",
        /// Its value.
        pub value: String = "value",
    }
}

object! {
    /// A port that can be connected to when all is well.
    pub struct TcpSocket {
        /// The port.
        pub port: NumberOrName = "port",
        /// The host; not said is the pod's address.
        pub host: Option<String> = "host",
    }
}

object! {
    /// A file with a fact of the object.
    pub struct FactFile {
        /// Its name.
        pub path: String = "path",
        /// A field of the object.
        pub field_ref: Option<FieldRef> = "fieldRef",
        /// What a container asks for.
        pub resource_field_ref: Option<ResourceFieldRef> = "resourceFieldRef",
        /// Who may read it, in the numbers of Unix.
        pub mode: Option<i64> = "mode",
    }
}

object! {
    /// A field of an object.
    pub struct FieldRef (atomic) {
        /// The version of the object; not said is `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// The field: `metadata.labels`.
        pub field_path: String = "fieldPath",
    }
}

object! {
    /// What a container asks for.
    pub struct ResourceFieldRef (atomic) {
        /// The container.
        pub container_name: Option<String> = "containerName",
        /// What it asks for: `limits.memory`.
        pub resource: String = "resource",
        /// What one is; not said is 1.
        pub divisor: Option<Quantity> = "divisor",
    }
}
