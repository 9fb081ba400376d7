//! How hard a component may ask the API server, and how its own doors are locked.

use crate::{object, words};
use serde_json::Number;

object! {
    /// What a component takes over without a restart.
    pub struct ComponentSettings {
        /// How it speaks to the API server.
        pub rest_client: Option<RestClient> = "restClient",
    }
}

object! {
    /// How a component speaks to the API server.
    pub struct RestClient {
        /// How often.
        pub rate_limiter: Option<RateLimiter> = "rateLimiter",
    }
}

object! {
    /// How often a component may ask the API server.
    pub struct RateLimiter {
        /// So many in a second, and some at once.
        pub token_bucket_rate_limiter: Option<TokenBucket> = "tokenBucketRateLimiter",
    }
}

object! {
    /// So many requests in a second, and some at once.
    pub struct TokenBucket {
        /// In a second.
        pub qps: Option<Number> = "qps",
        /// At once.
        pub burst: i64 = "burst",
    }
}

object! {
    /// What TLS must be at least.
    pub struct Tls {
        /// The least version.
        pub min_tls_version: Option<TlsVersion> = "minTLSVersion",
        /// The ciphers that are allowed, by their names in OpenSSL; none for TLS 1.3, which knows only good ones.
        pub ciphers: Vec<String> = "ciphers",
    }
}

words! {
    /// A version of TLS.
    #[allow(missing_docs)]
    pub enum TlsVersion {
        Tls10 = "VersionTLS10",
        Tls11 = "VersionTLS11",
        Tls12 = "VersionTLS12",
        Tls13 = "VersionTLS13",
    }
}
