//! What the argocd CLI reads and asks in `--core` mode, spoken by hand. The CLI itself is in e2e/oracle/core.test.mjs.

use std::io::Read;
use std::net::SocketAddr;
use std::process::Command;

use base64::Engine as _;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use slipway_runtime::CoreAddresses;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, automated, config_map};

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: key\nstringData:\n  key: canary\n";

struct Core {
    world: World,
    at: CoreAddresses,
    revision: String,
}

async fn core() -> Core {
    let world = World::new().await;
    let revision = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/key.yaml", SECRET)]);
    world.application("shop", automated()).await;
    let here = || SocketAddr::from(([127, 0, 0, 1], slipway_testkit::free_port()));
    let at = CoreAddresses { cache: here(), repository: here() };
    let mut config = world.config();
    config.argocd_core = Some(at);
    world.start_with(config);
    world.until_synced("shop", &revision).await;
    Core { world, at, revision }
}

/// Commands as a client sends them, and what came back, as it came.
struct Redis(TcpStream);

impl Redis {
    async fn connect(at: SocketAddr) -> Self {
        Self(TcpStream::connect(at).await.expect("the cache listens"))
    }

    async fn ask(&mut self, words: &[&str]) -> Vec<u8> {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.write_all(text.as_bytes()).await.expect("sent");
        self.reply().await
    }

    /// One reply that is a line or a text.
    async fn reply(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.0.read_u8().await.expect("an answer"));
        }
        line.truncate(line.len() - 2);
        let Some(length) = line.strip_prefix(b"$") else { return line };
        // A miss has no length, and nothing follows it.
        let Ok(length) = String::from_utf8_lossy(length).parse::<usize>() else { return Vec::new() };
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).await.expect("an answer");
        bytes.truncate(length);
        bytes
    }

    async fn value(&mut self, key: &str) -> Value {
        let packed = self.ask(&["GET", &format!("{key}|1.8.3.gz")]).await;
        let mut text = String::new();
        GzDecoder::new(&*packed).read_to_string(&mut text).expect("packed as asked");
        serde_json::from_str(&text).expect("JSON")
    }
}

async fn password(world: &World) -> String {
    let key = slipway_cluster::ObjectKey::new("", "Secret", "argocd", "argocd-redis");
    let secret = world.client.read(&key).await.expect("readable").expect("the engine made one");
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(secret["data"]["auth"].as_str().expect("a password"))
        .expect("base64");
    String::from_utf8(bytes).expect("text")
}

/// A question to the repository server: its frame by hand, the way there by curl.
fn ask(core: &Core, method: &str, message: &[u8]) -> (Vec<u8>, String) {
    ask_in_parts(core, method, &[message.to_vec()])
}

fn ask_in_parts(core: &Core, method: &str, messages: &[Vec<u8>]) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (sent, headers) = (folder.path().join("sent"), folder.path().join("headers"));
    let mut frames = Vec::new();
    for message in messages {
        frames.push(0);
        frames.extend(u32::try_from(message.len()).expect("short").to_be_bytes());
        frames.extend(message);
    }
    std::fs::write(&sent, frames).expect("written");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--insecure", "--http2", "--header", "te: trailers"])
        .args(["--header", "content-type: application/grpc", "--data-binary"])
        .arg(format!("@{}", sent.display()))
        .arg("--dump-header")
        .arg(&headers)
        .arg(format!("https://{}/repository.RepoServerService/{method}", core.at.repository))
        .output()
        .expect("curl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.stdout, std::fs::read_to_string(headers).expect("headers"))
}

/// A field of a message that is a text or a message itself.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).expect("seven bits"));
    out.extend(bytes);
    out
}

fn source(url: &str, path: &str) -> Vec<u8> {
    [field(1, url.as_bytes()), field(2, path.as_bytes()), field(4, b"main")].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cache_has_tree_manifests_and_clusters_behind_a_password_and_no_secret_in_them() {
    let core = core().await;
    let mut client = Redis::connect(core.at.cache).await;
    assert!(client.ask(&["GET", "app|resources-tree|shop|1.8.3.gz"]).await.starts_with(b"-NOAUTH"));
    assert!(client.ask(&["AUTH", "guessed"]).await.starts_with(b"-WRONGPASS"));
    assert_eq!(client.ask(&["AUTH", &password(&core.world).await]).await, b"+OK");

    let tree = client.value("app|resources-tree|shop").await;
    let nodes = tree["nodes"].as_array().expect("nodes");
    let node = nodes.iter().find(|node| node["kind"] == "ConfigMap").expect("the ConfigMap");
    assert_eq!((&node["name"], &node["namespace"]), (&json!("a"), &json!("shop")));
    assert!(node["uid"].as_str().is_some_and(|uid| !uid.is_empty()));

    let managed = client.value("app|managed-resources|shop").await;
    let of = |kind: &str| {
        let all = managed.as_array().expect("a list");
        all.iter().find(|one| one["kind"] == kind).cloned().expect("an entry")
    };
    let target: Value = serde_json::from_str(of("ConfigMap")["targetState"].as_str().expect("text")).unwrap();
    assert_eq!(target["data"]["key"], "1");
    let secret = of("Secret");
    let side = |name: &str| -> Value { serde_json::from_str(secret[name].as_str().expect("text")).unwrap() };
    assert!(side("targetState")["data"]["key"].as_str().is_some_and(|mask| mask.starts_with("++++")));
    let whole = managed.to_string();
    assert!(!whole.contains("canary") && !whole.contains("Y2FuYXJ5"), "{whole}");

    let cluster = client.value("cluster|info|https://kubernetes.default.svc").await;
    assert_eq!(cluster["connectionState"]["status"], "Successful");
    assert_eq!(cluster["applicationsCount"], 1);

    assert_eq!(client.ask(&["GET", "app|resources-tree|stranger|1.8.3.gz"]).await, b"", "a miss");
    assert!(client.ask(&["SET", "app|managed-resources|shop|1.8.3.gz", "x"]).await.starts_with(b"-READONLY"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_subscribes_hears_of_a_change() {
    let core = core().await;
    let mut client = Redis::connect(core.at.cache).await;
    assert_eq!(client.ask(&["AUTH", &password(&core.world).await]).await, b"+OK");
    assert_eq!(client.ask(&["SUBSCRIBE", "app|managed-resources|shop"]).await, b"*3");
    for expected in [&b"subscribe"[..], b"app|managed-resources|shop", b":1"] {
        assert_eq!(client.reply().await, expected);
    }
    core.world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    core.world.refresh("shop").await;
    assert_eq!(client.reply().await, b"*3");
    assert_eq!(client.reply().await, b"message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repository_server_resolves_and_renders_what_the_project_permits() {
    let core = core().await;
    let url = core.world.url();
    let app = |project: &str| {
        let spec = [field(1, &source(&url, "app")), field(3, project.as_bytes())].concat();
        field(2, &field(2, &spec))
    };
    let question = |project: &str| [app(project), field(3, b"main")].concat();
    let (answer, headers) = ask(&core, "ResolveRevision", &question("default"));
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(text.contains(&format!("main ({})", core.revision)), "{text} {headers}");

    let manifests = |path: &str, address: &str| {
        let parts = [(2, b"main".to_vec()), (5, b"shop".to_vec()), (8, b"shop".to_vec())];
        let mut message: Vec<u8> = parts.iter().flat_map(|(number, bytes)| field(*number, bytes)).collect();
        message.extend(field(10, &source(address, path)));
        message
    };
    let (answer, _) = ask(&core, "GenerateManifest", &manifests("app", &url));
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(text.contains(r#""argocd.argoproj.io/tracking-id":"shop:/ConfigMap:shop/a""#), "{text}");
    assert!(text.contains("Directory"), "{text}");

    let (_, headers) = ask(&core, "GenerateManifest", &manifests("not-there", &url));
    assert!(headers.to_lowercase().contains("grpc-status: 2") && headers.contains("not-there"), "{headers}");

    // A project that permits nothing of this: whoever can forward a port reads no more than an Application could.
    let spec = json!({"spec": {"sourceRepos": ["https://elsewhere.example/*"], "destinations": [{"server": "*", "namespace": "*"}]}});
    core.world.make("argoproj.io/v1alpha1", "AppProject", "argocd", "closed", spec).await;
    let began = std::time::Instant::now();
    loop {
        let (_, headers) = ask(&core, "ResolveRevision", &question("closed"));
        if headers.contains("is not permitted in project") {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{headers}");
    }
    let (_, headers) = ask(&core, "GetHelmCharts", &[]);
    assert!(headers.to_lowercase().contains("grpc-status: 12"), "{headers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_sent_along_are_rendered_in_the_place_of_the_repository() {
    let core = core().await;
    let folder = tempfile::tempdir().expect("a folder");
    let pack = |name: &str, text: &str| {
        let root = folder.path().join(name);
        std::fs::create_dir_all(root.join("app")).expect("a folder");
        std::fs::write(root.join("app/a.yaml"), text).expect("written");
        let packed =
            Command::new("tar").args(["--create", "--gzip", "--directory"]).arg(&root).arg("app").output();
        packed.expect("tar runs").stdout
    };
    let sum = |bytes: &[u8]| {
        use sha2::Digest as _;
        hex::encode(sha2::Sha256::digest(bytes))
    };
    let question = [
        field(2, b"main"),
        field(5, b"shop"),
        field(8, b"shop"),
        field(10, &source(&core.world.url(), "app")),
    ]
    .concat();
    let send = |packed: &[u8], checksum: &str| {
        let (first, second) = packed.split_at(packed.len() / 2);
        let parts = [
            field(1, &question),
            field(2, &field(1, checksum.as_bytes())),
            field(3, &field(1, first)),
            field(3, &field(1, second)),
        ];
        ask_in_parts(&core, "GenerateManifestWithFiles", &parts)
    };
    let packed = pack("good", &config_map("a", "from-here"));
    let (answer, headers) = send(&packed, &sum(&packed));
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(text.contains("from-here") && text.contains("shop:/ConfigMap:shop/a"), "{text} {headers}");
    assert_eq!(core.world.read("ConfigMap", "shop", "a").await["data"]["key"], "1", "nothing was deployed");

    let (_, headers) = send(&packed, &sum(b"other"));
    assert!(headers.contains("not those that were packed"), "{headers}");
    let root = folder.path().join("good/app");
    std::os::unix::fs::symlink("/etc/passwd", root.join("b.yaml")).expect("a link");
    let packed = pack("good", &config_map("a", "linked"));
    let (_, headers) = send(&packed, &sum(&packed));
    assert!(headers.contains("is a link or a device"), "{headers}");
    let (_, headers) = ask_in_parts(&core, "ResolveRevision", &[question.clone(), question.clone()]);
    assert!(headers.to_lowercase().contains("grpc-status: 12"), "{headers}");
}

/// Nothing on the wire says who asks, so the kernel does: another person of the machine is hung up on by both.
#[tokio::test]
async fn other_people_of_the_machine_are_not_answered() {
    let core = core().await;
    for port in [core.at.cache.port(), core.at.repository.port()] {
        let said = |who: &[&str]| {
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'PING\\r\\n\\r\\n' >&3; timeout 3 head -c 1 <&3 | wc -c"
            );
            let output = Command::new("setpriv")
                .args(who)
                .args(["bash", "-c", &script])
                .output()
                .expect("setpriv runs");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let stranger = said(&["--reuid=61998", "--regid=61998", "--clear-groups"]);
        assert_eq!(stranger, "0", "port {port}");
    }
    let mut redis = Redis::connect(core.at.cache).await;
    assert!(!redis.ask(&["PING"]).await.is_empty(), "we are answered");
}
