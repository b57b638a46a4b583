//! Helm's `lookup`: while one chart is rendered, its questions about the cluster come to a server in a network
//! that this run of helm alone is in, which passes them on to whoever answers for the Application.
//!
//! In: an answerer ([`Lookup`]). Out: a kubeconfig for one run of helm, and what was asked with a digest of each answer,
//! so that a later render can tell whether it would hear the same. The address holds a random word that is good for
//! this run alone; there is no credential of a cluster here. What may be asked is the answerer's business.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use futures::future::BoxFuture;
use serde_json::json;
use sha2::{Digest, Sha256};
use slipway_cage::Network;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::{Finding, RenderError};

/// Different questions of one render.
const QUESTIONS_MAX: usize = 500;
/// All answers of one render.
const BYTES_MAX: usize = 32 << 20;

/// Answers what templates ask of the cluster.
pub trait Lookup: Send + Sync {
    /// A GET of this path, which has no query. An error: the cluster cannot be asked now.
    fn answer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Answer, String>>;
}

/// As the API server would say it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// It holds what nobody may read in an error.
    pub sensitive: bool,
}

impl Answer {
    pub fn refused(status: u16, reason: &str, message: &str) -> Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status});
        Self { status, body: body.to_string().into_bytes(), sensitive: false }
    }

    /// Changes with what is said.
    pub(super) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.status.to_be_bytes());
        hash.update(&self.body);
        hex::encode(hash.finalize())
    }
}

/// What the same question is answered with now.
pub(super) async fn digest_now(lookup: Option<&Arc<dyn Lookup>>, path: &str) -> Result<String, RenderError> {
    let Some(lookup) = lookup else { return Ok(String::new()) };
    let answer = lookup.answer(path).await.map_err(|message| RenderError::Lookup { message })?;
    Ok(answer.digest())
}

#[derive(Default)]
struct Asked {
    /// One question has one answer as long as the render goes on.
    answers: BTreeMap<String, Answer>,
    bytes: usize,
    /// The cluster could not be asked.
    failed: Option<String>,
}

struct Serving {
    word: String,
    lookup: Arc<dyn Lookup>,
    asked: Lock<Asked>,
    /// One question after the other.
    turn: Mutex<()>,
    /// A connection that is still open is of no use either.
    ended: AtomicBool,
}

/// The server of one run. It ends with the value.
pub(super) struct Desk {
    address: String,
    serving: Arc<Serving>,
    task: JoinHandle<()>,
    network: Network,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.serving.ended.store(true, Ordering::Release);
        self.task.abort();
    }
}

impl Desk {
    pub(super) fn open(lookup: Arc<dyn Lookup>) -> Result<Self, RenderError> {
        let closed = |error: std::io::Error| RenderError::Lookup {
            message: format!("there is no port for its questions: {error}"),
        };
        // In a network of its own, which only this run of helm is given.
        let (listener, network) = slipway_cage::private_listener().map_err(closed)?;
        Self::serve(lookup, listener, network)
    }

    fn serve(
        lookup: Arc<dyn Lookup>,
        listener: std::net::TcpListener,
        network: Network,
    ) -> Result<Self, RenderError> {
        let closed = |error: std::io::Error| RenderError::Lookup {
            message: format!("there is no port for its questions: {error}"),
        };
        listener.set_nonblocking(true).map_err(closed)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(closed)?;
        let port = listener.local_addr().map_err(closed)?.port();
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|error| closed(std::io::Error::other(error)))?;
        let word = hex::encode(random);
        // Clients of Kubernetes send no token where there is no TLS, so that the word is a part of the address.
        let address = format!("http://127.0.0.1:{port}/{word}");
        let serving = Arc::new(Serving {
            word,
            lookup,
            asked: Lock::default(),
            turn: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let router = axum::Router::new().fallback(serve).with_state(serving.clone());
        let task = tokio::spawn(async move {
            // It ends when nobody waits for the render any more.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, serving, task, network })
    }

    /// The one in which the server can be reached, and nothing else.
    pub(super) fn network(&self) -> Network {
        self.network.clone()
    }

    /// JSON is YAML.
    pub(super) fn kubeconfig(&self) -> String {
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.address}}],
            "contexts": [{"name": "it", "context": {"cluster": "it"}}]})
        .to_string()
    }

    /// What helm's run came to: its output with what it asked, or its error without anything that it may have read.
    pub(super) fn close<T>(
        self,
        outcome: Result<T, RenderError>,
    ) -> Result<(T, BTreeMap<String, String>), RenderError> {
        let asked = std::mem::take(&mut *self.serving.asked.lock().expect("no panic while locked"));
        if let Some(message) = asked.failed {
            return Err(RenderError::Lookup { message });
        }
        let sensitive = asked.answers.values().any(|answer| answer.sensitive);
        match outcome {
            Ok(output) => {
                let digests =
                    asked.answers.into_iter().map(|(path, answer)| (path, answer.digest())).collect();
                Ok((output, digests))
            }
            Err(error) if sensitive => Err(withheld(error)),
            Err(RenderError::Tool { tool, path, detail }) => {
                let detail = detail.replace(&self.address, "").replace(&self.serving.word, "");
                Err(RenderError::Tool { tool, path, detail })
            }
            Err(error) => Err(error),
        }
    }
}

async fn serve(State(serving): State<Arc<Serving>>, request: Request) -> Response {
    let path = request.uri().path();
    let asked = path.strip_prefix('/').and_then(|path| path.strip_prefix(serving.word.as_str()));
    let asked = asked.filter(|_| !serving.ended.load(Ordering::Acquire));
    let answer = match asked {
        Some(path) if path.starts_with('/') && request.method() == Method::GET => serving.answer(path).await,
        Some(_) => Answer::refused(405, "MethodNotAllowed", "a chart may read the cluster, and no more"),
        None => Answer::refused(401, "Unauthorized", "Unauthorized"),
    };
    Response::builder()
        .status(StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(answer.body))
        .expect("a response of checked parts")
}

impl Serving {
    async fn answer(&self, path: &str) -> Answer {
        let _turn = self.turn.lock().await;
        let full = {
            let asked = self.asked.lock().expect("no panic while locked");
            if let Some(known) = asked.answers.get(path) {
                return known.clone();
            }
            asked.answers.len() >= QUESTIONS_MAX
        };
        let answer = if full {
            let message = format!("a chart may ask the cluster {QUESTIONS_MAX} questions, and this one has");
            Ok(Answer::refused(403, "Forbidden", &message))
        } else {
            self.lookup.answer(path).await
        };
        let mut asked = self.asked.lock().expect("no panic while locked");
        match answer {
            Ok(mut answer) => {
                if asked.bytes + answer.body.len() > BYTES_MAX {
                    let message = format!("what the chart looked up is more than {BYTES_MAX} bytes");
                    answer = Answer::refused(413, "RequestEntityTooLarge", &message);
                }
                asked.bytes += answer.body.len();
                if !full {
                    asked.answers.insert(path.to_owned(), answer.clone());
                }
                answer
            }
            Err(message) => {
                let answer = Answer::refused(503, "ServiceUnavailable", &message);
                asked.failed = Some(message);
                answer
            }
        }
    }
}

const WITHHELD: &str = "the words of the error are withheld, because the chart looked up a Secret";

/// The error with the place where it happened, and nothing that a template could have put into it.
fn withheld(error: RenderError) -> RenderError {
    match error {
        RenderError::Tool { tool, path, detail } => {
            let detail = place(&detail).map_or_else(|| WITHHELD.to_owned(), |at| format!("{at}: {WITHHELD}"));
            RenderError::Tool { tool, path, detail }
        }
        RenderError::Findings(findings) => RenderError::Findings(
            findings.into_iter().map(|finding| Finding { message: WITHHELD.to_owned(), ..finding }).collect(),
        ),
        other => other,
    }
}

/// `c/templates/s.yaml:1:5` of helm's own beginning of an error.
fn place(detail: &str) -> Option<&str> {
    let begins = ["Error: template: ", "Error: execution error at (", "Error: YAML parse error on "];
    let rest = detail.lines().find_map(|line| begins.iter().find_map(|begin| line.strip_prefix(begin)))?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"._-/:".contains(c)).unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches(':')).filter(|place| !place.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Lookup for Echo {
        fn answer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Answer, String>> {
            Box::pin(async move {
                match path {
                    "/away" => Err("the cluster is away".to_owned()),
                    "/big" => Ok(Answer { status: 200, body: vec![b'x'; BYTES_MAX + 1], sensitive: false }),
                    _ => Ok(Answer { status: 200, body: path.into(), sensitive: path == "/secret" }),
                }
            })
        }
    }

    /// On this machine's loopback, where the test can reach it.
    fn open() -> Desk {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        Desk::serve(Arc::new(Echo), listener, Network::None).expect("open")
    }

    /// One client for all: each looks for certificates when it is made.
    struct Client(reqwest::Client);

    impl Client {
        fn new() -> Self {
            Self(reqwest::Client::new())
        }

        async fn get(&self, url: String) -> u16 {
            self.0.get(url).send().await.map_or(0, |answer| answer.status().as_u16())
        }
    }

    #[tokio::test]
    async fn the_address_of_one_render_is_useless_for_the_next_and_the_server_without_it() {
        let client = Client::new();
        let (first, second) = (open(), open());
        assert_eq!(client.get(format!("{}/api/v1", first.address)).await, 200);
        let port = |desk: &Desk| desk.address.rsplit_once('/').expect("a path").0.to_owned();
        let other = first.serving.word.clone();
        for path in ["/api/v1", "/", &format!("/{other}/api/v1"), &format!("/{}", &other[..63])] {
            assert_eq!(client.get(format!("{}{path}", port(&second))).await, 401, "{path}");
        }
        let post = client.0.post(format!("{}/api/v1", second.address)).send().await;
        assert_eq!(post.expect("answered").status().as_u16(), 405);
        let address = first.address.clone();
        let (_, asked) = first.close(Ok(())).expect("closed");
        assert_eq!(asked.keys().collect::<Vec<_>>(), ["/api/v1"]);
        // The port may be somebody else's by now, but nobody answers there for us.
        assert_ne!(client.get(format!("{address}/api/v1")).await, 200);
    }

    #[tokio::test]
    async fn what_is_too_much_is_refused_and_a_cluster_that_is_away_fails_the_render() {
        let client = Client::new();
        let desk = open();
        assert_eq!(client.get(format!("{}/big", desk.address)).await, 413);
        for number in 1..QUESTIONS_MAX {
            assert_eq!(client.get(format!("{}/{number}", desk.address)).await, 200);
        }
        assert_eq!(client.get(format!("{}/more", desk.address)).await, 403);
        assert_eq!(
            client.get(format!("{}/1", desk.address)).await,
            200,
            "what was asked before is no new question"
        );
        let desk = open();
        assert_eq!(client.get(format!("{}/away", desk.address)).await, 503);
        assert!(
            matches!(desk.close(Ok(())), Err(RenderError::Lookup { message }) if message.contains("away"))
        );
    }

    #[tokio::test]
    async fn an_error_after_a_secret_says_where_and_nothing_else() {
        let client = Client::new();
        let broken = |detail: &str| {
            Err::<(), _>(RenderError::Tool {
                tool: "helm".into(),
                path: "chart".into(),
                detail: detail.to_owned(),
            })
        };
        let texts = [
            ("Error: execution error at (c/templates/s.yaml:1:42): canary", "c/templates/s.yaml:1:42: "),
            ("x canary\nError: template: c/templates/s.yaml:1:5: at <canary>", "c/templates/s.yaml:1:5: "),
            ("Error: YAML parse error on c/templates/s.yaml: canary", "c/templates/s.yaml: "),
            ("Error: canary", "the words"),
        ];
        for (detail, expected) in texts {
            let desk = open();
            client.get(format!("{}/secret", desk.address)).await;
            let said = desk.close(broken(detail)).expect_err("broken").to_string();
            assert!(
                said.contains(expected) && said.contains("withheld") && !said.contains("canary"),
                "{said}"
            );
        }
        // Without a Secret the words stay, but not the address.
        let desk = open();
        let detail = format!("Error: Get \"{}/api/v1\": words", desk.address);
        let said = desk.close(broken(&detail)).expect_err("broken").to_string();
        assert!(said.contains("words") && !said.contains("127.0.0.1"), "{said}");
    }
}
