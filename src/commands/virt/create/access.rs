//! Access credentials of a guest, from `--access-cred`.

use super::cloud_init::Needs;
use super::params::{Params, fault};
use crate::error::Result;
use serde_json::{Value, json};

const FLAG: &str = "access-cred";
const NO_USER: &str = "user cannot be specified with selected access credential type and method";

/// A credential. `user` is that of the flag `--user`, `source` that of `--cloud-init`; `needs` collects its
/// requirements on cloud-init.
pub(super) fn credential(
    text: &str,
    user: Option<&str>,
    source: Option<&str>,
    needs: &mut Needs,
) -> Result<Value> {
    let params = Params::parse(FLAG, text, &["type", "src", "method", "user"])?;
    let secret = json!({"secret": {"secretName": params.local_source("secret")?}});
    let method = params.get("method").unwrap_or("ga").to_lowercase();
    match params.get("type").unwrap_or("ssh").to_lowercase().as_str() {
        "ssh" => {
            let way = ssh(&params, &method, user, source, needs)?;
            Ok(json!({"sshPublicKey": {"source": secret, "propagationMethod": way}}))
        }
        "password" if method != "ga" => {
            let what =
                format!("invalid access credentials password method \"{method}\", supported values are: ga");
            Err(params.fault(&what))
        }
        "password" if params.get("user").is_some() => Err(params.fault(NO_USER)),
        "password" => {
            Ok(json!({"userPassword": {"source": secret, "propagationMethod": {"qemuGuestAgent": {}}}}))
        }
        other => {
            let what =
                format!("invalid access credential type \"{other}\", supported values are: ssh, password");
            Err(params.fault(&what))
        }
    }
}

fn ssh(
    params: &Params,
    method: &str,
    user: Option<&str>,
    source: Option<&str>,
    needs: &mut Needs,
) -> Result<Value> {
    let (field, wanted) = match method {
        "ga" => {
            let Some(user) = params.get("user").or(user) else {
                let what = "user must be specified with access credential ssh method ga (\"--user\" flag or param \"user\")";
                return Err(params.fault(what));
            };
            needs.guest_agent = true;
            return Ok(json!({"qemuGuestAgent": {"users": [user]}}));
        }
        "nocloud" => ("noCloud", "nocloud"),
        "configdrive" => ("configDrive", "configdrive"),
        other => {
            let what = format!(
                "invalid access credentials ssh method \"{other}\", supported values are: ga, nocloud, configdrive"
            );
            return Err(params.fault(&what));
        }
    };
    if params.get("user").is_some() {
        return Err(params.fault(NO_USER));
    }
    let said = source.or(needs.source).unwrap_or(wanted);
    if !said.eq_ignore_ascii_case(wanted) {
        let what = format!("method param and value passed to --cloud-init have to match: {wanted} vs {said}");
        return Err(fault(FLAG, &what));
    }
    needs.source = Some(wanted);
    Ok(json!({field: {}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str, user: Option<&str>, source: Option<&str>) -> Result<(Value, Needs)> {
        let mut needs = Needs::default();
        credential(text, user, source, &mut needs).map(|value| (value, needs))
    }

    #[test]
    fn credentials_are_written_as_virtctl_writes_them() {
        let secret = json!({"secret": {"secretName": "keys"}});
        let (agent, needs) = made("src:keys", Some("me"), None).unwrap();
        let users = json!({"qemuGuestAgent": {"users": ["me"]}});
        assert_eq!(agent, json!({"sshPublicKey": {"source": secret, "propagationMethod": users}}));
        assert!(needs.guest_agent && needs.source.is_none());
        let (drive, needs) = made("type:ssh,src:keys,method:ConfigDrive", Some("me"), None).unwrap();
        assert_eq!(drive["sshPublicKey"]["propagationMethod"], json!({"configDrive": {}}));
        assert_eq!(needs.source, Some("configdrive"));
        let (password, _) = made("type:password,src:keys", None, None).unwrap();
        let wanted = json!({"userPassword": {"source": secret, "propagationMethod": {"qemuGuestAgent": {}}}});
        assert_eq!(password, wanted);
    }

    #[test]
    fn credentials_that_cannot_be_say_why() {
        for (text, source, wanted) in [
            ("type:ssh", None, "src must be specified"),
            ("src:n/keys", None, "namespace of secret"),
            ("src:keys", None, "user must be specified"),
            ("src:keys,type:pin", None, "invalid access credential type"),
            ("src:keys,method:post", None, "invalid access credentials ssh method"),
            ("src:keys,method:nocloud,user:me", None, NO_USER),
            ("src:keys,method:nocloud", Some("configdrive"), "have to match: nocloud vs configdrive"),
            ("src:keys,type:password,method:nocloud", None, "password method"),
            ("src:keys,type:password,user:me", None, NO_USER),
        ] {
            let e = made(text, None, source).unwrap_err().to_string();
            assert!(e.contains(wanted), "{text}: {e}");
        }
    }
}
