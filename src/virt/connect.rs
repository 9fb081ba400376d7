//! Choice of the cluster and of the user's credentials: kubectl's flags over kubectl's files.
//!
//! ```text
//!  --kubeconfig, KUBECONFIG, ~/.kube/config ─┐
//!  the service account of a pod ─────────────┼─► Config ◄── --server, --token, --as, …
//!  --server alone ───────────────────────────┘
//! ```

use super::target::name;
use crate::error::{Error, ErrorKind, Result};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Environment variable for `--token`.
pub(crate) const TOKEN: &str = "CORACLE_TOKEN";

/// Flags of kubectl that choose a cluster.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Options of the cluster")]
pub(crate) struct ConnectArgs {
    /// Namespace of the objects [default: that of the context]
    #[arg(short, long, global = true, value_name = "NAME", value_parser = name)]
    namespace: Option<String>,

    /// Kubeconfig file [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig file [default: its current context]
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,

    /// Cluster of the kubeconfig file [default: that of the context]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    cluster: Option<String>,

    /// User of the kubeconfig file [default: that of the context]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    user: Option<String>,

    /// Address of the API server [default: that of the cluster]
    #[arg(short, long, global = true, value_name = "URL")]
    server: Option<String>,

    /// Bearer token for the API server; given as a flag, every user of this
    /// computer can read it
    #[arg(long, global = true, hide_short_help = true, value_name = "TOKEN")]
    #[arg(env = TOKEN, hide_env_values = true)]
    token: Option<String>,

    /// Name of the user to impersonate
    #[arg(long = "as", global = true, hide_short_help = true, value_name = "USER")]
    impersonate: Option<String>,

    /// Group to impersonate; repeat for several
    #[arg(long = "as-group", global = true, hide_short_help = true, value_name = "GROUP")]
    impersonate_groups: Vec<String>,

    /// File with the certificates of the authorities for the API server
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,

    /// Path of the client certificate file
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", requires = "client_key")]
    client_certificate: Option<String>,

    /// Path of the client key file
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", requires = "client_certificate")]
    client_key: Option<String>,

    /// Name of the API server in its certificate [default: that of the address]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// Accept any certificate of the API server; others can then read along
    #[arg(long, global = true, hide_short_help = true)]
    insecure_skip_tls_verify: bool,
}

impl ConnectArgs {
    /// The flags of a verb that has few of them.
    pub(crate) fn of_few(
        namespace: Option<&str>,
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> ConnectArgs {
        ConnectArgs {
            namespace: namespace.map(str::to_owned),
            kubeconfig: kubeconfig.map(Path::to_owned),
            context: context.map(str::to_owned),
            ..ConnectArgs::default()
        }
    }

    /// Namespace of the flag, if given.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The same flags for a verb with a `--user` of its own, which hides that of the kubeconfig, as virtctl's
    /// does.
    pub(crate) fn without_user(&self) -> ConnectArgs {
        ConnectArgs { user: None, ..self.clone() }
    }

    /// Token that replaces the kubeconfig's. A child program for the same cluster gets it by the variable
    /// [`TOKEN`], since every user of the computer can read its command line.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }

    /// Configuration of the client for the cluster.
    pub(super) async fn config(&self) -> Result<Config> {
        let mut config = self.base().await?;
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        if let Some(file) = &self.certificate_authority {
            config.root_cert_file = Some(file.clone());
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        config.tls_server_name = self.tls_server_name.clone().or(config.tls_server_name);
        let login = &mut config.auth_info;
        if let Some(token) = self.token() {
            (login.exec, login.auth_provider, login.username, login.token_file) = (None, None, None, None);
            login.token = Some(token.to_owned().into());
        }
        if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
            (login.client_certificate_data, login.client_key_data) = (None, None);
            login.client_certificate = Some(certificate.clone());
            login.client_key = Some(key.clone());
        }
        if let Some(user) = &self.impersonate {
            login.impersonate = Some(user.clone());
        }
        if !self.impersonate_groups.is_empty() {
            login.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        if let Some(server) = &self.server {
            let is_secured = config.root_cert.is_some()
                || config.root_cert_file.is_some()
                || config.accept_invalid_certs
                || self.client_certificate.is_some();
            config.cluster_url = address(server, is_secured)?;
        }
        // A temporary refusal goes to the caller, who decides about a retry: a start must not be sent twice.
        config.default_retry = false;
        Ok(config)
    }

    async fn base(&self) -> Result<Config> {
        let bad = |e: KubeconfigError| {
            Error::new(ErrorKind::Usage, "the kubeconfig names no cluster to talk to")
                .because(e)
                .with_hint("say --context NAME, or set one by 'kubectl config use-context NAME'")
        };
        if let Some(file) = self.file()? {
            let options = KubeConfigOptions {
                context: self.context.clone(),
                cluster: self.cluster.clone(),
                user: self.user.clone(),
            };
            self.chosen(&file)?;
            return match Config::from_custom_kubeconfig(file, &options).await {
                // kubectl also sends requests without credentials to such a server.
                Err(KubeconfigError::CurrentContextNotSet) if self.server.is_some() => self.bare(),
                other => other.map_err(bad),
            };
        }
        match Config::incluster() {
            Ok(config) => Ok(config),
            Err(_) if self.server.is_some() => self.bare(),
            Err(_) => {
                let what =
                    "no cluster is configured: KUBECONFIG is not set, and ~/.kube/config does not exist";
                Err(Error::new(ErrorKind::NotFound, what).with_hint("say --kubeconfig FILE"))
            }
        }
    }

    /// Checks that the file has the context, cluster and user of the flags.
    fn chosen(&self, file: &Kubeconfig) -> Result<()> {
        let wanted = [
            ("context", &self.context, names(&file.contexts, |context| &context.name)),
            ("cluster", &self.cluster, names(&file.clusters, |cluster| &cluster.name)),
            ("user", &self.user, names(&file.auth_infos, |user| &user.name)),
        ];
        for (what, name, known) in wanted {
            let Some(name) = name.as_deref().filter(|name| !known.contains(name)) else { continue };
            let has = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let said = format!("{} has no {what} \"{name}\"; it has {has}", self.file_name());
            return Err(Error::new(ErrorKind::Usage, said));
        }
        Ok(())
    }

    /// Name of the kubeconfig for messages.
    fn file_name(&self) -> String {
        let of_flag = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        let of_variable = || std::env::var("KUBECONFIG").ok().filter(|paths| !paths.is_empty());
        let path = of_flag.or_else(of_variable).unwrap_or_else(|| "~/.kube/config".to_owned());
        format!("the kubeconfig {path}")
    }

    /// Configuration for a server of which only the address is known.
    fn bare(&self) -> Result<Config> {
        address(self.server.as_deref().unwrap_or_default(), self.insecure_skip_tls_verify).map(Config::new)
    }

    fn file(&self) -> Result<Option<Kubeconfig>> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        match read {
            Ok(file) => Ok(Some(file)),
            Err(KubeconfigError::FindPath) => Ok(None),
            Err(KubeconfigError::ReadConfig(e, path)) => {
                let is_absent = e.kind() == std::io::ErrorKind::NotFound;
                match is_absent && self.kubeconfig.is_none() && std::env::var_os("KUBECONFIG").is_none() {
                    true => Ok(None),
                    false => Err(Error::io(format!("cannot read the kubeconfig {}", path.display()), e)),
                }
            }
            Err(e) => Err(Error::refused("the kubeconfig cannot be understood").because(e)),
        }
    }

    /// The same flags without the token, for a child program that uses the same cluster.
    pub(crate) fn again(&self) -> Vec<OsString> {
        let texts = [
            ("--kubeconfig", self.kubeconfig.as_ref().map(|path| path.clone().into_os_string())),
            ("--context", self.context.clone().map(Into::into)),
            ("--cluster", self.cluster.clone().map(Into::into)),
            ("--user", self.user.clone().map(Into::into)),
            ("--server", self.server.clone().map(Into::into)),
            ("--as", self.impersonate.clone().map(Into::into)),
            (
                "--certificate-authority",
                self.certificate_authority.as_ref().map(|path| path.clone().into_os_string()),
            ),
            ("--client-certificate", self.client_certificate.clone().map(Into::into)),
            ("--client-key", self.client_key.clone().map(Into::into)),
            ("--tls-server-name", self.tls_server_name.clone().map(Into::into)),
        ];
        let groups = self.impersonate_groups.iter().map(|group| ("--as-group", Some(group.into())));
        let mut flags: Vec<OsString> = Vec::new();
        for (flag, value) in texts.into_iter().chain(groups) {
            if let Some(value) = value {
                let mut whole = OsString::from(format!("{flag}="));
                whole.push(value);
                flags.push(whole);
            }
        }
        if self.insecure_skip_tls_verify {
            flags.push("--insecure-skip-tls-verify".into());
        }
        flags
    }
}

fn names<T>(entries: &[T], name: impl Fn(&T) -> &String) -> Vec<&str> {
    entries.iter().map(|entry| name(entry).as_str()).collect()
}

/// Parses an address as kubectl does: without a scheme TLS is used if a flag or the kubeconfig configures it.
fn address(text: &str, is_secured: bool) -> Result<http::Uri> {
    let whole = match text.contains("://") {
        true => text.to_owned(),
        false if is_secured => format!("https://{text}"),
        false => format!("http://{text}"),
    };
    whole.parse().map_err(|e| {
        let what = format!("--server {text} is not an address: use https://HOST:PORT");
        Error::new(ErrorKind::Usage, what).because(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: c1, cluster: {server: 'https://one.example:6443'}}
- {name: c2, cluster: {server: 'https://two.example', insecure-skip-tls-verify: true}}
users:
- {name: u1, user: {token: t1}}
contexts:
- {name: one, context: {cluster: c1, user: u1, namespace: blue}}
- {name: two, context: {cluster: c2, user: u1}}
";

    fn config(args: &ConnectArgs, file: &str) -> Result<Config> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, file).unwrap();
        let args = ConnectArgs { kubeconfig: Some(path), ..args.clone() };
        crate::virt::wait(args.config())
    }

    #[test]
    fn flags_win_over_the_file() {
        let some = |text: &str| Some(text.to_owned());
        let plain = config(&ConnectArgs::default(), FILE).unwrap();
        assert_eq!(plain.cluster_url.to_string(), "https://one.example:6443/");
        assert_eq!((plain.default_namespace.as_str(), plain.default_retry), ("blue", false));

        let two = ConnectArgs { context: some("two"), namespace: some("red"), ..ConnectArgs::default() };
        let two = config(&two, FILE).unwrap();
        assert_eq!((two.cluster_url.host(), two.accept_invalid_certs), (Some("two.example"), true));
        assert_eq!(two.default_namespace, "red");

        let other = ConnectArgs {
            server: some("127.0.0.1:1"),
            impersonate: some("me"),
            impersonate_groups: vec!["us".to_owned()],
            ..ConnectArgs::default()
        };
        let other = config(&other, FILE).unwrap();
        assert_eq!(other.cluster_url.to_string(), "http://127.0.0.1:1/");
        assert_eq!(other.auth_info.impersonate.as_deref(), Some("me"));
        assert_eq!(other.auth_info.impersonate_groups, Some(vec!["us".to_owned()]));
    }

    #[test]
    fn a_file_that_names_no_cluster_says_what_to_do() {
        let file = FILE.replace("current-context: one\n", "");
        let error = config(&ConnectArgs::default(), &file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("--context NAME"), "{error}");
        let server = ConnectArgs { server: Some("https://x".to_owned()), ..ConnectArgs::default() };
        assert_eq!(config(&server, &file).unwrap().cluster_url.host(), Some("x"));
        let unknown = ConnectArgs { context: Some("three".to_owned()), ..ConnectArgs::default() };
        let said = config(&unknown, FILE).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Usage);
        let said = said.chain();
        assert!(said.starts_with("the kubeconfig /"), "{said}");
        assert!(said.ends_with("has no context \"three\"; it has one, two"), "{said}");
        let unknown = ConnectArgs { user: Some("me".to_owned()), ..ConnectArgs::default() };
        assert!(config(&unknown, FILE).unwrap_err().chain().ends_with("no user \"me\"; it has u1"));
        let empty = ConnectArgs { cluster: Some("c".to_owned()), ..ConnectArgs::default() };
        let said = config(&empty, "apiVersion: v1\nkind: Config\n").unwrap_err().chain();
        assert!(said.ends_with("has no cluster \"c\"; it has none"), "{said}");
        assert_eq!(config(&ConnectArgs::default(), "{").unwrap_err().kind(), ErrorKind::Refused);
        let nowhere = ConnectArgs { kubeconfig: Some("/nowhere/config".into()), ..ConnectArgs::default() };
        assert_eq!(crate::virt::wait(nowhere.config()).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn addresses_are_read_as_kubectl_reads_them() {
        for (text, is_secured, wanted) in
            [("https://h:1", false, "https://h:1/"), ("h:1", false, "http://h:1/"), ("h", true, "https://h/")]
        {
            assert_eq!(address(text, is_secured).unwrap().to_string(), wanted);
        }
        assert_eq!(address("a b", false).unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn the_flags_can_be_said_again() {
        let args = ConnectArgs {
            namespace: Some("left out: the target says it".to_owned()),
            kubeconfig: Some("/a b".into()),
            context: Some("c".to_owned()),
            token: Some("left out: others could read it".to_owned()),
            impersonate_groups: vec!["g".to_owned(), "h".to_owned()],
            insecure_skip_tls_verify: true,
            ..ConnectArgs::default()
        };
        let wanted = [
            "--kubeconfig=/a b",
            "--context=c",
            "--as-group=g",
            "--as-group=h",
            "--insecure-skip-tls-verify",
        ];
        assert_eq!(args.again(), wanted);
    }
}
