//! Validation of settings of the KubeVirt object that could be misread or silently ignored.

use api::fault::{Fault, Reason};
use api::kubevirt::{Configuration, Tls, TlsVersion};
use api::machine::hardware::{MOST, is_folder, not_in_smbios};
use cluster_model::config::program::Rate;
use cluster_model::config::tls::suite;

const AT: &str = "spec.configuration";

pub(super) fn judge(said: &Configuration, faults: &mut Vec<Fault>) {
    if let Some(tls) = &said.tls_configuration {
        self::tls(tls, faults);
    }
    rates(said, faults);
    if let Some(smbios) = &said.smbios {
        let texts = [
            ("manufacturer", &smbios.manufacturer),
            ("product", &smbios.product),
            ("version", &smbios.version),
            ("sku", &smbios.sku),
            ("family", &smbios.family),
        ];
        for (name, text) in texts {
            if let Some(why) = text.as_deref().and_then(not_in_smbios) {
                let at = format!("{AT}.smbios.{name}");
                faults.push(Fault::new(&at, Reason::Invalid, format!("{at} {why}")));
            }
        }
    }
    let amd64 = said.architecture_configuration.as_ref().and_then(|all| all.amd64.as_ref());
    let paths = [
        ("ovmfPath", &said.ovmf_path),
        ("architectureConfiguration.amd64.ovmfPath", amd64.map_or(&None, |amd64| &amd64.ovmf_path)),
    ];
    for (name, path) in paths {
        if path.as_deref().is_some_and(|path| !path.is_empty() && !is_folder(path)) {
            let why = "must be the path of a directory from the root, without `.` and `..`";
            faults.push(invalid(format!("{AT}.{name}"), why));
        }
    }
    if said.mem_balloon_stats_period.is_some_and(|period| period > MOST) {
        faults.push(invalid(format!("{AT}.memBalloonStatsPeriod"), format!("must be no more than {MOST}")));
    }
    let developer = said.developer_configuration.as_ref();
    let percent = developer.and_then(|developer| developer.pvc_tolerate_less_space_up_to_percent);
    if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
        let at = format!("{AT}.developerConfiguration.pvcTolerateLessSpaceUpToPercent");
        faults.push(invalid(at, format!("must be from 0 to 100, not {percent}")));
    }
    if let Some(number) = said.virtual_machine_instances_per_node.filter(|number| *number < 1) {
        let at = format!("{AT}.virtualMachineInstancesPerNode");
        faults.push(invalid(at, format!("must be greater than 0, not {number}")));
    }
}

fn invalid(at: String, why: impl Into<String>) -> Fault {
    Fault::new(at, Reason::Invalid, why)
}

fn tls(said: &Tls, faults: &mut Vec<Fault>) {
    let at = format!("{AT}.tlsConfiguration");
    let known = "VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13";
    if let Some(TlsVersion::Other(word)) =
        said.min_tls_version.as_ref().filter(|word| !word.as_str().is_empty())
    {
        let message = format!("{at}.minTLSVersion is set with an unrecognized option: {word}");
        faults.push(Fault::new(format!("{at}.minTLSVersion"), Reason::NotSupported, message).hint(known));
    }
    let is_fixed = said
        .min_tls_version
        .as_ref()
        .is_none_or(|version| version.as_str().is_empty() || *version == TlsVersion::Tls13);
    if is_fixed && !said.ciphers.is_empty() {
        let why = format!("You cannot specify ciphers when {at}.minTLSVersion is empty or VersionTLS13");
        faults.push(invalid(format!("{at}.ciphers"), why));
    }
    let mut is_served = false;
    for (i, name) in said.ciphers.iter().enumerate() {
        is_served |= suite(name).is_some();
        if suite(name).is_none() && !is_cipher(name) {
            let name: String = name.chars().take(64).collect();
            faults.push(invalid(format!("{at}.ciphers[{i}]"), format!("{name} is not a valid cipher")));
        }
    }
    if !said.ciphers.is_empty() && !is_served {
        let why = "none of the ciphers is supported by the servers, which support those with ECDHE and AES-GCM or \
                   ChaCha20-Poly1305";
        faults.push(invalid(format!("{at}.ciphers"), why));
    }
}

/// True for the form of a cipher's name. Unknown ciphers are accepted, since none of them is used.
fn is_cipher(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' || c == '-';
    (3..=64).contains(&name.len()) && name.chars().all(plain)
}

/// Warnings about valid but surprising settings.
pub(super) fn notes(said: &Configuration) -> Vec<String> {
    let ciphers = said.tls_configuration.as_ref().map_or(&[][..], |tls| &tls.ciphers);
    let mut notes = Vec::new();
    let has_ecdsa = |name: &String| suite(name).is_some_and(|name| name.contains("_ECDSA_"));
    if !ciphers.is_empty() && !ciphers.iter().any(has_ecdsa) {
        let why = "the certificates of the servers have ECDSA keys, and no cipher for them is here: only TLS 1.3 is spoken";
        notes.push(format!("{AT}.tlsConfiguration.ciphers: {why}"));
    }
    let old = said.tls_configuration.as_ref().and_then(|tls| tls.min_tls_version.as_ref());
    if matches!(old, Some(TlsVersion::Tls10 | TlsVersion::Tls11)) {
        notes
            .push(format!("{AT}.tlsConfiguration.minTLSVersion: the servers still require TLS 1.2 or newer"));
    }
    notes
}

fn rates(said: &Configuration, faults: &mut Vec<Fault>) {
    let components = [
        ("apiConfiguration", &said.api_configuration),
        ("webhookConfiguration", &said.webhook_configuration),
        ("controllerConfiguration", &said.controller_configuration),
        ("handlerConfiguration", &said.handler_configuration),
    ];
    for (name, component) in components {
        let limiter =
            component.as_ref().and_then(|component| component.rest_client.as_ref()?.rate_limiter.as_ref());
        let Some(bucket) = limiter.and_then(|limiter| limiter.token_bucket_rate_limiter.as_ref()) else {
            continue;
        };
        let at = format!("{AT}.{name}.restClient.rateLimiter.tokenBucketRateLimiter");
        if bucket.qps.as_ref().and_then(serde_json::Number::as_f64).is_none_or(|qps| qps < Rate::LEAST) {
            faults.push(invalid(format!("{at}.qps"), format!("must be at least {}", Rate::LEAST)));
        }
        if bucket.burst < 1 {
            faults.push(invalid(format!("{at}.burst"), "must be at least 1"));
        }
    }
}
