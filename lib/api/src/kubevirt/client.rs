//! API clients and TLS of the components.

use crate::{object, string_enum};
use serde_json::Number;

object! {
    /// Settings that a component reloads without a restart.
    pub struct ComponentSettings {
        /// Client of the component for the API server.
        pub rest_client: Option<RestClient> = "restClient",
    }
}

object! {
    /// Client of a component for the API server.
    pub struct RestClient {
        /// Rate limit of requests to the API server.
        pub rate_limiter: Option<RateLimiter> = "rateLimiter",
    }
}

object! {
    /// Rate limit of requests to the API server.
    pub struct RateLimiter {
        /// Token bucket that limits rate and burst of requests. Unset: no limit of our own.
        pub token_bucket_rate_limiter: Option<TokenBucket> = "tokenBucketRateLimiter",
    }
}

object! {
    /// Token bucket that limits rate and burst of requests.
    pub struct TokenBucket {
        /// Requests per second in the long run; at least 1.
        pub qps: Option<Number> = "qps",
        /// Number of requests that may be sent at once; at least 1.
        pub burst: i64 = "burst",
    }
}

object! {
    /// Requirements for TLS connections to the components.
    pub struct Tls {
        /// Minimum TLS version that the servers accept: `VersionTLS12` or `VersionTLS13`. Older versions
        /// stand for `VersionTLS12`. Default: `VersionTLS12`.
        pub min_tls_version: Option<TlsVersion> = "minTLSVersion",
        /// Permitted cipher suites of TLS 1.2 by their IANA or OpenSSL names; only with a `minTLSVersion`
        /// below `VersionTLS13`, whose suites are fixed. Unset: every suite with ECDHE and AES-GCM or
        /// ChaCha20.
        pub ciphers: Vec<String> = "ciphers",
    }
}

/// The cipher suites of TLS 1.2 that the servers support: the IANA name of each, and its OpenSSL name.
pub const CIPHERS: [&str; 12] = [
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

string_enum! {
    /// Version of the TLS protocol.
    pub enum TlsVersion {
        Tls10 = "VersionTLS10",
        Tls11 = "VersionTLS11",
        Tls12 = "VersionTLS12",
        Tls13 = "VersionTLS13",
    }
}
