//! A mutating webhook in the real Kubernetes: what it adds is no difference, unless the Application wants it compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::site::Site;

/// Adds `added: by-webhook` to the data of every ConfigMap that it is shown, and counts the dry runs of one of them.
struct Webhook {
    port: u16,
    ca: String,
    dry_runs: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

fn review(asked: &Value) -> Value {
    let patch = json!([{"op": "add", "path": "/data/added", "value": "by-webhook"}]).to_string();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
        "uid": asked["request"]["uid"], "allowed": true, "patchType": "JSONPatch",
        "patch": base64::engine::general_purpose::STANDARD.encode(patch)}})
}

impl Webhook {
    fn start(counted: &'static str) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let tls =
            tls.expect("versions").with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
        let tls = tls.expect("a certificate with its key");
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let dry_runs = Arc::new(AtomicUsize::new(0));
        let counter = dry_runs.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, counter) = (acceptor.clone(), counter.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(move |request: hyper::Request<Incoming>| {
                        let counter = counter.clone();
                        async move {
                            let body = request.into_body().collect().await?.to_bytes();
                            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
                            if asked["request"]["dryRun"] == true && asked["request"]["name"] == counted {
                                counter.fetch_add(1, Ordering::SeqCst);
                            }
                            let answer =
                                hyper::Response::builder().header("content-type", "application/json");
                            Ok::<_, hyper::Error>(
                                answer
                                    .body(Full::<axum::body::Bytes>::from(review(&asked).to_string()))
                                    .expect("an answer"),
                            )
                        }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                });
            }
        });
        let ca = base64::engine::general_purpose::STANDARD.encode(made.cert.pem());
        Self { port, ca, dry_runs, _runtime: runtime }
    }

    /// For ConfigMaps of one namespace alone, and of no harm when it is away.
    fn configuration(&self, namespace: &str) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{"name": "adds.slipway.example", "sideEffects": "None", "failurePolicy": "Ignore",
                "admissionReviewVersions": ["v1"], "timeoutSeconds": 10,
                "clientConfig": {"url": format!("https://127.0.0.1:{}/", self.port), "caBundle": self.ca},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": ["CREATE", "UPDATE"]}]}]})
    }
}

/// The configuration belongs to no namespace, so that nobody else takes it away.
struct Configured<'a>(&'a Site<'a>);

impl Drop for Configured<'_> {
    fn drop(&mut self) {
        let name = self.0.target.name();
        let gone = self.0.target.succeeds(&["delete", "mutatingwebhookconfiguration", name]);
        assert!(gone || std::thread::panicking(), "the webhook's configuration stays behind");
    }
}

#[test]
fn what_a_mutating_webhook_adds_is_compared_only_where_the_application_asks_for_it() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n";
    let site = Site::new(&[("app/a.yaml", map.to_owned())]);
    let target = site.target.name().to_owned();
    let name = format!("app-{target}");
    let mut app = site.application(&name, "app", json!({}));
    app["operation"] = json!({"sync": {"syncOptions": ["ServerSideApply=true"]}});
    site.create(&app);
    site.wait(&name, "{.status.sync.status}=Synced");
    let added = || site.target.kubectl(&["get", "configmap", "settings", "-o", "jsonpath={.data.added}"]);
    assert_eq!(added(), "", "it was made before there was a webhook");

    let webhook = Webhook::start("settings");
    site.target.apply(&webhook.configuration(&target).to_string());
    let _configured = Configured(&site);
    let try_out = [
        "create",
        "configmap",
        "x",
        "--from-literal=a=b",
        "--dry-run=server",
        "-o",
        "jsonpath={.data.added}",
    ];
    site.until("the webhook being asked", || site.target.kubectl(&try_out) == "by-webhook");

    let compare = |options: &str| {
        let options = format!("argocd.argoproj.io/compare-options={options}");
        site.control.kubectl(&[
            "annotate",
            "app",
            &name,
            &options,
            "argocd.argoproj.io/refresh=normal",
            "--overwrite",
        ]);
        site.until("the look", || {
            site.app(&name)["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null()
        });
        site.app(&name)["status"]["sync"]["status"].as_str().unwrap_or_default().to_owned()
    };
    // A dry run would add something that is not there. That is the webhook's doing, not the manifest's.
    assert_eq!(compare("ServerSideDiff=true"), "Synced");
    assert!(webhook.dry_runs.load(Ordering::SeqCst) > 0, "the API server was not asked");
    assert_eq!(added(), "");
    assert_eq!(compare("ServerSideDiff=true,IncludeMutationWebhook=true"), "OutOfSync");
    assert_eq!(compare("ServerSideDiff=true"), "Synced");
    assert_eq!(compare("ServerSideDiff=true,IncludeMutationWebhook=true"), "OutOfSync");

    // Synced, the object has what the webhook adds, and every way of comparing calls it synced.
    let sync = json!({"operation": {"sync": {"syncOptions": ["ServerSideApply=true"]}}}).to_string();
    site.control.kubectl(&["patch", "app", &name, "--type=merge", "-p", &sync]);
    site.wait(&name, "{.status.sync.status}=Synced");
    assert_eq!(added(), "by-webhook");
    for options in
        ["ServerSideDiff=true,IncludeMutationWebhook=true", "ServerSideDiff=true", "ServerSideDiff=false"]
    {
        assert_eq!(compare(options), "Synced", "{options}");
    }
}
