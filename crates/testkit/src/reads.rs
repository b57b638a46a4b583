//! Quick reads of the shared cluster: what tests ask again and again, without starting kubectl for each question.
//!
//! Comes in: words for kubectl. Goes out: what it would answer, where that is plain (one object as JSON, names of objects, whether something
//! is there), else nothing, and the real one is asked. kubectl takes a tenth of a second of processor for every question, and tests that wait
//! ask ten times a second; so one `kubectl proxy` for each test program answers on a socket of its own. It ends with the program, however
//! that ends: it listens to a pipe.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How kinds are called, the path of their group, their plural, and what `-o name` calls them.
const KINDS: &[(&[&str], &str, &str, &str)] = &[
    (&["pod", "pods"], "api/v1", "pods", "pod"),
    (&["secret", "secrets"], "api/v1", "secrets", "secret"),
    (&["configmap", "configmaps", "cm"], "api/v1", "configmaps", "configmap"),
    (&["service", "services"], "api/v1", "services", "service"),
    (&["serviceaccount", "serviceaccounts"], "api/v1", "serviceaccounts", "serviceaccount"),
    (
        &["persistentvolumeclaim", "persistentvolumeclaims"],
        "api/v1",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
    ),
    (&["deployment", "deployments"], "apis/apps/v1", "deployments", "deployment.apps"),
    (&["job", "jobs"], "apis/batch/v1", "jobs", "job.batch"),
    (
        &["application", "applications", "app", "apps", "applications.argoproj.io"],
        "apis/argoproj.io/v1alpha1",
        "applications",
        APPLICATIONS,
    ),
];

const APPLICATIONS: &str = "application.argoproj.io";

#[derive(Debug)]
pub(crate) struct Reads {
    socket: PathBuf,
    /// Kept, because its standard input is what keeps the proxy.
    _proxy: Child,
}

/// A question that is answered here.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    Object(String),
    /// The list as the API has it: of kinds whose objects say what they are.
    List(String),
    /// A value inside of one object.
    Inside(String, Vec<String>),
    /// Paths of lists, with what their objects are called.
    Names(Vec<(String, &'static str)>),
    There(String),
}

impl Reads {
    pub(crate) fn new(kubeconfig: &Path) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("kp-").tempdir().ok()?.keep();
        let socket = folder.join("s");
        let script = "kubectl --kubeconfig \"$1\" proxy --unix-socket \"$2/s\" >/dev/null 2>&1 & proxy=$!
            cat >/dev/null
            kill $proxy; wait $proxy; rm -rf \"$2\"";
        let proxy = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([kubeconfig, &folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let end = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&socket).is_err() {
            if Instant::now() > end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { socket, _proxy: proxy })
    }

    /// What kubectl would print; `None`: ask it.
    pub(crate) fn answer(&self, arguments: &[&str]) -> Option<String> {
        match question(arguments)? {
            Question::Object(path) => {
                let (status, body) = self.get(&path)?;
                // Why it is not there is kubectl's to say.
                (status == 200).then_some(body)
            }
            Question::List(path) => {
                let (status, body) = self.get(&path)?;
                (status == 200).then_some(body)
            }
            Question::Inside(path, names) => {
                let (status, body) = self.get(&path)?;
                let object: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
                match names.iter().fold(&object, |value, name| &value[name.as_str()]) {
                    Value::Null => Some(String::new()),
                    Value::String(text) => Some(text.clone()),
                    Value::Bool(is) => Some(is.to_string()),
                    Value::Number(number) => Some(number.to_string()),
                    // How kubectl writes these is its own affair.
                    Value::Array(_) | Value::Object(_) => None,
                }
            }
            Question::Names(lists) => {
                let mut text = String::new();
                for (path, called) in lists {
                    let (status, body) = self.get(&path)?;
                    let list: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
                    for item in list["items"].as_array()? {
                        text += &format!("{called}/{}\n", item["metadata"]["name"].as_str()?);
                    }
                }
                Some(text)
            }
            Question::There(_) => None,
        }
    }

    /// Whether kubectl would succeed; `None`: ask it.
    pub(crate) fn is_there(&self, arguments: &[&str]) -> Option<bool> {
        let path = match question(arguments)? {
            Question::There(path) | Question::Object(path) => path,
            Question::Names(_) | Question::List(_) | Question::Inside(..) => return None,
        };
        match self.get(&path)?.0 {
            200 => Some(true),
            404 => Some(false),
            _ => None,
        }
    }

    /// In the oldest form there is, whose answer ends with the connection.
    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        write!(stream, "GET /{path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }
}

fn question(arguments: &[&str]) -> Option<Question> {
    let ["--namespace", namespace, "get", kinds, rest @ ..] = arguments else { return None };
    let path = |kind: &str| {
        let (_, group, plural, called) = KINDS.iter().find(|(names, ..)| names.contains(&kind))?;
        Some((format!("{group}/namespaces/{namespace}/{plural}"), *called))
    };
    let lists: Option<Vec<_>> = kinds.split(',').map(path).collect();
    let lists = lists?;
    let one = |name: &str| {
        let plain = !name.starts_with('-') && !name.contains('/') && lists.len() == 1;
        plain.then(|| format!("{}/{name}", lists[0].0))
    };
    match rest {
        [] if lists.len() == 1 => Some(Question::There(format!("{}?limit=1", lists[0].0))),
        ["-o", "name"] | ["--output=name"] => Some(Question::Names(lists)),
        ["-l", labels, "-o", "name"] | ["--output=name", "--selector", labels] => {
            let plain = labels.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./=_,-".contains(&byte));
            let chosen = |(path, called)| (format!("{path}?labelSelector={labels}"), called);
            plain.then(|| Question::Names(lists.into_iter().map(chosen).collect()))
        }
        [name] => one(name).map(Question::There),
        [name, "-o", "json"] => one(name).map(Question::Object),
        ["-o", "json"] if lists.len() == 1 && lists[0].1 == APPLICATIONS => {
            Some(Question::List(lists[0].0.clone()))
        }
        [name, "-o", form] => Some(Question::Inside(one(name)?, plain_path(form)?)),
        _ => None,
    }
}

/// The names of a JSONPath that has nothing else in it.
fn plain_path(form: &str) -> Option<Vec<String>> {
    let path = form.strip_prefix("jsonpath={.")?.strip_suffix('}')?;
    let plain = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    path.split('.').map(|name| plain(name).then(|| name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_questions_are_answered_here() {
        let ask = |words: &str| question(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(
            ask("--namespace a get app x -o json"),
            Some(Question::Object("apis/argoproj.io/v1alpha1/namespaces/a/applications/x".into()))
        );
        assert_eq!(
            ask("--namespace a get pods,secrets --output=name"),
            Some(Question::Names(vec![
                ("api/v1/namespaces/a/pods".into(), "pod"),
                ("api/v1/namespaces/a/secrets".into(), "secret"),
            ]))
        );
        assert_eq!(
            ask("--namespace a get pods -l x.io/y=z -o name"),
            Some(Question::Names(vec![("api/v1/namespaces/a/pods?labelSelector=x.io/y=z".into(), "pod")]))
        );
        assert_eq!(
            ask("--namespace a get serviceaccount default"),
            Some(Question::There("api/v1/namespaces/a/serviceaccounts/default".into()))
        );
        assert_eq!(
            ask("--namespace a get cm m -o jsonpath={.data.key}"),
            Some(Question::Inside(
                "api/v1/namespaces/a/configmaps/m".into(),
                vec!["data".into(), "key".into()]
            ))
        );
        assert_eq!(
            ask("--namespace a get applications.argoproj.io -o json"),
            Some(Question::List("apis/argoproj.io/v1alpha1/namespaces/a/applications".into()))
        );
        for words in [
            "--namespace a get cm m -o jsonpath={.data.a\\.b}",
            "--namespace a get cm m -o jsonpath={.items[0].x}",
            "--namespace a get cm m -o jsonpath={.data.a}{.data.b}",
            "get pods",
            "--namespace a delete pod x",
            "--namespace a get pods -l x!=y -o name",
            "--namespace a get pod x -o yaml",
            "--namespace a get pods -o json",
            "--namespace a get all",
            "--namespace a get deploy/x",
        ] {
            assert_eq!(ask(words), None, "{words}");
        }
    }
}
