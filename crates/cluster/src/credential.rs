//! Programs that give the token of a cluster (`execProviderConfig`), each in a cage.
//!
//! In: what a cluster Secret says. Out: a credential, and a header that stays good as long as the connection lives. The
//! program has the machine's network, because it asks a cloud for the token, a home of its own that is gone with it, and
//! of our environment only what says who this machine is to its cloud. It sees no file of ours but those that the
//! environment names for that, and what the operator adds ([`READS`]). Nothing that it prints is told.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use http::HeaderValue;
use serde::Deserialize;
use serde_json::{Value, json};
use slipway_cage::{Cage, Network, Stream, Streams};
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

/// A program that takes longer is ended.
const DEADLINE: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// A token is renewed so long before its end, and a program that failed is asked again after this time.
const AHEAD: Duration = Duration::from_secs(20);
/// Paths of this machine that such programs may read, with `:` between them.
const READS: &str = "SLIPWAY_CREDENTIAL_PROGRAMS_READ";

/// Who this machine is to its cloud, as the clouds' own webhooks say it to pods.
const IDENTITY: [&str; 11] = [
    "AWS_ROLE_ARN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_STS_REGIONAL_ENDPOINTS",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_AUTHORITY_HOST",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
];

/// The same, where a file holds it: a copy is put into the program's home.
const IDENTITY_FILES: [&str; 4] = [
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// A program as a cluster Secret names it.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Program {
    command: String,
    args: Vec<String>,
    env: HashMap<String, String>,
    api_version: String,
    install_hint: String,
    pub(crate) provide_cluster_info: bool,
}

/// What it gave.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Credential {
    pub(crate) token: Option<String>,
    pub(crate) client_certificate_data: Option<String>,
    pub(crate) client_key_data: Option<String>,
    expiration_timestamp: Option<jiff::Timestamp>,
}

impl Program {
    /// Runs it to its end. The words of an error are ours.
    pub(crate) async fn run(&self, cluster: Option<&Value>) -> Result<Credential, String> {
        let starts = |error: std::io::Error| {
            let hint = if self.install_hint.is_empty() { "" } else { "; its Secret has an installHint" };
            format!("its credential program does not start: {error}{hint}")
        };
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let home = tempfile::Builder::new().prefix("slipway-login-").permissions(private).tempdir();
        let home = home.map_err(starts)?;
        let mut command = self.command(&home, cluster);
        command.current_dir(home.path());
        let mut cage = Cage::new().network(Network::Host).write(home.path());
        let reads = std::env::var_os(READS).unwrap_or_default();
        for path in std::env::split_paths(&reads).filter(|path| path.is_absolute() && path.exists()) {
            cage = cage.read(path);
        }
        cage.give(home.path()).map_err(starts)?;
        let streams = Streams { stdout: Stream::Pipe, stderr: Stream::Null, stdin: Stream::Null };
        let mut child = cage.spawn(&command, streams).map_err(starts)?;
        let output = slipway_cage::reader(child.stdout.take().expect("stdout was piped")).map_err(starts)?;
        let work = async {
            let mut said = Vec::new();
            output.take(ANSWER_BYTES_MAX).read_to_end(&mut said).await.map_err(starts)?;
            let status = child.wait().await.map_err(starts)?;
            if !status.success() {
                return Err(format!("its credential program failed ({status})"));
            }
            read(&said).ok_or_else(|| "what its credential program printed is no ExecCredential".to_owned())
        };
        let late = || format!("its credential program did not end within {} s", DEADLINE.as_secs());
        tokio::time::timeout(DEADLINE, work).await.map_err(|_| late())?
    }

    fn command(&self, home: &tempfile::TempDir, cluster: Option<&Value>) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args).env("HOME", home.path());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        for name in IDENTITY {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        for name in IDENTITY_FILES {
            let Some(path) = std::env::var_os(name).map(PathBuf::from) else { continue };
            let copy = home.path().join(name);
            if std::fs::copy(path, &copy).is_ok() {
                command.env(name, copy);
            }
        }
        command.envs(&self.env);
        let mut spec = json!({"interactive": false});
        if let Some(cluster) = cluster.filter(|_| self.provide_cluster_info) {
            spec["cluster"] = cluster.clone();
        }
        let version = Some(self.api_version.as_str()).filter(|version| !version.is_empty());
        let asked = json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec});
        command.env("KUBERNETES_EXEC_INFO", asked.to_string());
        command
    }
}

fn read(said: &[u8]) -> Option<Credential> {
    #[derive(Deserialize)]
    struct Answer {
        status: Credential,
    }
    let answer: Answer = serde_json::from_slice(said).ok()?;
    let Credential { token, client_certificate_data, .. } = &answer.status;
    (token.is_some() || client_certificate_data.is_some()).then_some(answer.status)
}

/// The header of a token that is renewed before it runs out, until this value is dropped.
pub(crate) struct Keeper {
    header: Arc<RwLock<HeaderValue>>,
    task: JoinHandle<()>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Keeper {
    pub(crate) fn new(program: Program, cluster: Option<Value>, first: &Credential) -> Option<Self> {
        let header = Arc::new(RwLock::new(header_of(first)?));
        let (kept, until) = (header.clone(), first.expiration_timestamp);
        let task = tokio::spawn(async move { renew(&program, cluster.as_ref(), until, &kept).await });
        Some(Self { header, task })
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.header.read().expect("no panic while locked").clone()
    }
}

async fn renew(
    program: &Program,
    cluster: Option<&Value>,
    mut until: Option<jiff::Timestamp>,
    header: &RwLock<HeaderValue>,
) {
    // Without an end it holds for good.
    while let Some(end) = until {
        let left = Duration::try_from(end.duration_since(jiff::Timestamp::now())).unwrap_or_default();
        // What holds only for a moment is asked for now and then, not all the time.
        tokio::time::sleep(left.saturating_sub(AHEAD).max(AHEAD / 4)).await;
        match program.run(cluster).await {
            Ok(next) => {
                if let Some(value) = header_of(&next) {
                    *header.write().expect("no panic while locked") = value;
                }
                until = next.expiration_timestamp;
            }
            Err(error) => {
                tracing::warn!(%error, "The token of a cluster could not be renewed; trying again.");
                tokio::time::sleep(AHEAD).await;
            }
        }
    }
}

fn header_of(credential: &Credential) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", credential.token.as_deref()?)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use slipway_testkit::inside::{Probe, Seen};

    use super::*;

    fn script(text: &str) -> (tempfile::TempDir, Program) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("login");
        std::fs::write(&file, text).expect("written");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("set");
        let env = HashMap::from([("CLUSTER".to_owned(), "far".to_owned())]);
        (folder, Program { command: file.display().to_string(), env, ..Program::default() })
    }

    #[tokio::test]
    async fn a_credential_program_sees_the_network_and_no_file_of_ours() {
        let probe = Probe::named("login");
        let program = Program {
            command: probe.path().display().to_string(),
            args: vec!["get-token".into()],
            env: HashMap::from([("CLUSTER".to_owned(), "far".to_owned())]),
            ..Program::default()
        };
        let given = program.run(None).await.map_err(drop).expect("the probe gives a token");
        let seen = Seen(serde_json::from_str(&given.token.expect("a token")).expect("the probe writes JSON"));
        seen.assert_caged().assert_own_user();
        assert_eq!(seen.number("loopback"), 0, "it asks a cloud: {}", seen.0);
        let names: Vec<String> = seen
            .texts("environment")
            .iter()
            .filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()))
            .collect();
        let known = ["HOME", "PATH", "CLUSTER", "KUBERNETES_EXEC_INFO"];
        assert!(
            names.iter().all(|name| known.contains(&name.as_str()) || IDENTITY.contains(&name.as_str())),
            "{names:?}"
        );
    }

    #[tokio::test]
    async fn what_goes_wrong_is_said_in_our_words() {
        for (text, words) in [
            ("#!/bin/sh\necho canary\necho canary >&2\nexit 7\n", "failed (exit status: 7)"),
            ("#!/bin/sh\necho '{\"status\": \"canary\"'\n", "is no ExecCredential"),
            ("#!/bin/sh\necho '{\"status\": {}}'\n", "is no ExecCredential"),
        ] {
            let (_folder, program) = script(text);
            let said = program.run(None).await.err().expect("wrong");
            assert!(said.contains(words) && !said.contains("canary"), "{said}");
        }
        let absent = Program { command: "/nowhere/at/all".into(), ..Program::default() };
        assert!(absent.run(None).await.err().expect("wrong").contains("does not start"));
    }

    #[tokio::test]
    async fn a_token_is_renewed_before_it_runs_out() {
        let (_folder, program) = script(
            "#!/bin/sh\n[ \"$CLUSTER\" = far ] || exit 3\n\
             printf '{\"status\":{\"token\":\"%s\",\"expirationTimestamp\":\"%s\"}}' \"$(date +%N)\" \
             \"$(date -u -d '+21 seconds' +%Y-%m-%dT%H:%M:%SZ)\"\n",
        );
        let first = program.run(None).await.map_err(drop).expect("a token");
        let keeper = Keeper::new(program, None, &first).expect("a header");
        let before = keeper.header();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while keeper.header() == before {
            assert!(tokio::time::Instant::now() < deadline, "it was not renewed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
