//! Settings of the KubeVirt object for our own programs: TLS, verbosity of the logs, rate limits of requests
//! to the API server. Each program follows them while it runs (package `serve`).

use super::tls::TlsPolicy;
use crate::objects::Program;
use serde_json::Value;

/// Maximum rate. A higher one would not limit anything in practice.
const MOST: f64 = 1e6;

/// Settings of one program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramSettings {
    pub tls: TlsPolicy,
    /// Log verbosity, from 0 to 10. Unset: the program's default.
    pub verbosity: Option<i64>,
    /// Rate limit of requests to the API server; `None` for no limit.
    pub rate: Option<Rate>,
    /// Rate limit of the requests that its webhooks make.
    pub webhook_rate: Option<Rate>,
}

/// A token bucket: `burst` requests at once, and `qps` ([`Rate::LEAST`] or more) per second in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub burst: u32,
    pub qps: f64,
}

impl ProgramSettings {
    /// The settings of a program on the node of this name, from a KubeVirt object.
    pub fn from_kubevirt(object: &Value, program: Program, node: &str) -> ProgramSettings {
        let said = &object["spec"]["configuration"];
        let logs = &said["developerConfiguration"]["logVerbosity"];
        let rate = |component: &str| Rate::parse(&said[component]["restClient"]["rateLimiter"]);
        let (verbosity, rate, webhook_rate) = match program {
            Program::Api => (&logs["virtAPI"], rate("apiConfiguration"), rate("webhookConfiguration")),
            Program::Controller => (&logs["virtController"], rate("controllerConfiguration"), None),
            Program::Handler => {
                let own = &logs["nodeVerbosity"][node];
                let is_set = own.as_i64().is_some_and(|own| own > 0);
                (if is_set { own } else { &logs["virtHandler"] }, rate("handlerConfiguration"), None)
            }
            // cdi-uploadproxy belongs to CDI, which has settings of its own.
            Program::Proxy => (&Value::Null, None, None),
        };
        ProgramSettings {
            tls: TlsPolicy::from_kubevirt(object),
            verbosity: verbosity.as_i64(),
            rate,
            webhook_rate,
        }
    }
}

impl Rate {
    /// Minimum rate. With a lower one, a program would notice a new rate too late.
    pub const LEAST: f64 = 1.0;

    /// A rate of zero is ignored, and a lower one than [`Rate::LEAST`] is raised to it. virt-api refuses
    /// both.
    fn parse(limiter: &Value) -> Option<Rate> {
        let said = &limiter["tokenBucketRateLimiter"];
        let qps = said["qps"].as_f64().filter(|qps| *qps > 0.0)?;
        let burst = said["burst"].as_u64().filter(|&burst| burst > 0)?;
        Some(Rate { burst: u32::try_from(burst).unwrap_or(u32::MAX), qps: qps.clamp(Self::LEAST, MOST) })
    }
}

/// Log level for a verbosity from 0 to 10.
pub fn log_level(verbosity: i64) -> &'static str {
    match verbosity {
        5.. => "trace",
        3.. => "debug",
        _ => "info",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(said: &Value, program: Program, node: &str) -> ProgramSettings {
        ProgramSettings::from_kubevirt(&json!({"spec": {"configuration": said}}), program, node)
    }

    #[test]
    fn each_program_logs_as_much_as_is_said_of_it() {
        let said = json!({"developerConfiguration": {"logVerbosity": {
            "virtAPI": 1, "virtController": 3, "virtHandler": 4, "nodeVerbosity": {"a": 9, "b": 0},
        }}});
        let verbosity = |program, node| of(&said, program, node).verbosity;
        assert_eq!(verbosity(Program::Api, ""), Some(1));
        assert_eq!(verbosity(Program::Controller, ""), Some(3));
        assert_eq!(verbosity(Program::Handler, "a"), Some(9), "the node's own");
        assert_eq!(verbosity(Program::Handler, "b"), Some(4), "0 says nothing");
        assert_eq!(verbosity(Program::Handler, "c"), Some(4));
        assert_eq!(verbosity(Program::Proxy, "a"), None);
        assert_eq!(
            ProgramSettings::from_kubevirt(&Value::Null, Program::Handler, "a"),
            ProgramSettings::default()
        );
    }

    #[test]
    fn a_rate_that_lets_nothing_through_is_none_and_next_to_nothing_the_least() {
        let bucket = |qps: Value, burst: Value| {
            let said = json!({"restClient": {"rateLimiter": {"tokenBucketRateLimiter": {"qps": qps, "burst": burst}}}});
            of(&json!({"controllerConfiguration": said}), Program::Controller, "").rate
        };
        assert_eq!(bucket(json!(2.5), json!(7)), Some(Rate { burst: 7, qps: 2.5 }));
        for (qps, burst) in
            [(json!(0), json!(7)), (json!(-1), json!(7)), (json!(1), json!(0)), (json!("1"), json!(1))]
        {
            assert_eq!(bucket(qps, burst), None);
        }
        assert_eq!(bucket(json!(1e-9), json!(1)), Some(Rate { burst: 1, qps: Rate::LEAST }));
        assert_eq!(bucket(json!(1e300), json!(u64::MAX)), Some(Rate { burst: u32::MAX, qps: MOST }));
    }

    #[test]
    fn webhooks_have_a_rate_of_their_own() {
        let rate = |qps: u32| json!({"restClient": {"rateLimiter": {"tokenBucketRateLimiter": {"qps": qps, "burst": 1}}}});
        let said = json!({
            "apiConfiguration": rate(1), "webhookConfiguration": rate(2),
            "controllerConfiguration": rate(3), "handlerConfiguration": rate(4),
        });
        let rates = |program| {
            let settings = of(&said, program, "");
            [settings.rate, settings.webhook_rate].map(|rate| rate.map(|rate| rate.qps))
        };
        assert_eq!(rates(Program::Api), [Some(1.0), Some(2.0)]);
        assert_eq!(rates(Program::Controller), [Some(3.0), None]);
        assert_eq!(rates(Program::Handler), [Some(4.0), None]);
        assert_eq!(rates(Program::Proxy), [None, None]);
    }
}
