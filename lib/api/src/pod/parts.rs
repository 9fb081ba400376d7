//! Tolerations, topology spread, DNS, probes and the downward API.

use crate::meta::LabelSelector;
use crate::object;
use crate::pod::NumberOrName;
use crate::quantity::Quantity;

object! {
    /// Toleration of a node taint by a pod.
    pub struct Toleration {
        /// Key of the tolerated taint. Unset, with operator `Exists`: all taints.
        pub key: Option<String> = "key",
        /// Operator of the comparison: `Equal` or `Exists`. Default: `Equal`.
        pub operator: Option<String> = "operator",
        /// Value of the tolerated taint with operator `Equal`.
        pub value: Option<String> = "value",
        /// Effect of the tolerated taint: `NoSchedule`, `PreferNoSchedule` or `NoExecute`. Unset: all
        /// effects.
        pub effect: Option<String> = "effect",
        /// Seconds that a `NoExecute` taint is tolerated before eviction. Unset: forever.
        pub toleration_seconds: Option<i64> = "tolerationSeconds",
    }
}

object! {
    /// Rule that spreads similar pods over topology domains.
    pub struct TopologySpread {
        /// Maximum difference of the number of pods between two topology domains.
        pub max_skew: i64 = "maxSkew",
        /// Node label that defines the topology domain, for example `topology.kubernetes.io/zone`.
        pub topology_key: String = "topologyKey",
        /// Reaction if the rule cannot be met: `DoNotSchedule` or `ScheduleAnyway`.
        pub when_unsatisfiable: String = "whenUnsatisfiable",
        /// Label selector of the pods to count.
        pub label_selector: Option<LabelSelector> = "labelSelector",
        /// Minimum number of topology domains with matching nodes. Default: 1.
        pub min_domains: Option<i64> = "minDomains",
        /// Treatment of the pod's node affinity and node selector in the count: `Honor` or `Ignore`. Default:
        /// `Honor`.
        pub node_affinity_policy: Option<String> = "nodeAffinityPolicy",
        /// Treatment of node taints in the count: `Honor` or `Ignore`. Default: `Ignore`.
        pub node_taints_policy: Option<String> = "nodeTaintsPolicy",
        /// Keys of labels that the counted pods must share with this pod.
        pub match_label_keys: Vec<String> = "matchLabelKeys",
    }
}

object! {
    /// DNS servers, search domains and resolver options.
    pub struct DnsConfig {
        /// IP addresses of DNS servers; at most 3.
        pub nameservers: Vec<String> = "nameservers",
        /// DNS search domains for short hostnames; at most 6.
        pub searches: Vec<String> = "searches",
        /// Options of the DNS resolver.
        pub options: Vec<DnsOption> = "options",
    }
}

object! {
    /// Option of the DNS resolver.
    pub struct DnsOption {
        /// Name of the resolver option, for example `ndots`.
        pub name: Option<String> = "name",
        /// Value of the resolver option.
        pub value: Option<String> = "value",
    }
}

object! {
    /// Command whose exit code is the result of a probe.
    pub struct Exec {
        /// Command and its arguments, run without a shell.
        pub command: Vec<String> = "command",
    }
}

object! {
    /// HTTP GET request as a probe.
    pub struct HttpGet {
        /// Path of the HTTP request. Default: `/`.
        pub path: Option<String> = "path",
        /// Number of the port, from 1 to 65535, or its name.
        pub port: NumberOrName = "port",
        /// Host to connect to. Default: the IP address of the pod.
        pub host: Option<String> = "host",
        /// Scheme of the request: `HTTP` or `HTTPS`. Default: `HTTP`.
        pub scheme: Option<String> = "scheme",
        /// Additional headers of the HTTP request.
        pub http_headers: Vec<HttpHeader> = "httpHeaders",
    }
}

object! {
    /// Header of an HTTP request.
    pub struct HttpHeader {
        /// Name of the HTTP header.
        pub name: String = "name",
        /// Value of the HTTP header.
        pub value: String = "value",
    }
}

object! {
    /// TCP connection as a probe.
    pub struct TcpSocket {
        /// Number of the port, from 1 to 65535, or its name.
        pub port: NumberOrName = "port",
        /// Host to connect to. Default: the IP address of the pod.
        pub host: Option<String> = "host",
    }
}

object! {
    /// File with a field of the object.
    pub struct FactFile {
        /// Relative path of the file.
        pub path: String = "path",
        /// Field of the object that the file contains.
        pub field_ref: Option<FieldRef> = "fieldRef",
        /// Container resource that the file contains.
        pub resource_field_ref: Option<ResourceFieldRef> = "resourceFieldRef",
        /// Permission bits of the file, for example 0644 in octal. Unset: the default of the volume.
        pub mode: Option<i64> = "mode",
    }
}

object! {
    /// Reference to a field of an object.
    pub struct FieldRef (atomic) {
        /// API version of the object with the field. Default: `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Path of the field, for example `metadata.labels`.
        pub field_path: String = "fieldPath",
    }
}

object! {
    /// Reference to a resource of a container.
    pub struct ResourceFieldRef (atomic) {
        /// Name of the container with the resource.
        pub container_name: Option<String> = "containerName",
        /// Name of the resource, for example `limits.memory`.
        pub resource: String = "resource",
        /// Unit in which the resource is written, for example `1Mi`. Default: 1.
        pub divisor: Option<Quantity> = "divisor",
    }
}
