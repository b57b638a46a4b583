//! A whole engine in fifty lines, on the shell: what a new one costs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slipway_cluster::{Change, ObjectKey, Subject, Subscription};
use slipway_model::Next;
use slipway_reconcile::{
    Key, Kind, Reconciler, Requeue, Retry, Shards, Sharing, Shell, Stop, TaskStatus, Tasks, Wake, Watch,
    subscriptions,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const GREETING: Kind = Kind::new("example.com", "Greeting");
const CONFIG_MAP: Kind = Kind::new("", "ConfigMap");

/// The pure room: what a greeting should say, and when to say it again.
fn plan(wish: &str) -> Result<(String, Option<u64>), String> {
    match wish.split_once(' ') {
        Some(("every", ms)) => Ok(("Hello again".into(), ms.parse().ok())),
        Some(("fail", why)) => Err(why.to_owned()),
        Some(("panic", _)) => panic!("a defect"),
        _ => Ok((format!("Hello {wish}"), None)),
    }
}

/// The folder: reads what is wished for, plans, says it.
struct Greeter {
    wishes: Arc<Mutex<BTreeMap<Key, String>>>,
    said: mpsc::UnboundedSender<String>,
}

impl Reconciler for Greeter {
    const NAME: &'static str = "greeter";
    const KIND: Kind = GREETING;
    const MANAGER: &'static str = "greeter-controller";
    const RETRY: Retry = Retry::every(Duration::from_millis(20));

    fn watches() -> Vec<Watch<Self>> {
        let everybody = |greeter: &Self, _: &Change| greeter.keys();
        vec![Watch::itself(), Watch::owned(), Watch::map(CONFIG_MAP, everybody)]
    }

    fn keys(&self) -> Vec<Key> {
        self.wishes.lock().expect("not poisoned").keys().cloned().collect()
    }

    async fn reconcile(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        let wish = self.wishes.lock().expect("not poisoned").get(key).cloned();
        let Some(wish) = wish else { return Ok(Requeue::Never) };
        let planned = plan(&wish);
        let words = planned.as_ref().map_or_else(|error| format!("sorry: {error}"), |plan| plan.0.clone());
        let _ = self.said.send(if wake.timer { format!("{words}, in time") } else { words });
        let (_, again) = planned.map_err(|error| Stop::failed(error, Next::Retry))?;
        Ok(again.map_or(Requeue::Never, |ms| Requeue::At(Instant::now() + Duration::from_millis(ms))))
    }

    async fn released(&self, key: &Key) {
        let _ = self.said.send(format!("goodbye {}", key.name));
    }
}

/// The row, and somebody who changes things.
struct World {
    shell: Shell,
    tasks: Arc<Tasks>,
    wishes: Arc<Mutex<BTreeMap<Key, String>>>,
    heard: mpsc::UnboundedReceiver<String>,
    _running: JoinSet<()>,
}

impl World {
    fn new(shards: Shards) -> Self {
        let (said, heard) = mpsc::unbounded_channel();
        let wishes = Arc::new(Mutex::new(BTreeMap::new()));
        let tasks = Arc::new(Tasks::default());
        let greeter = Greeter { wishes: wishes.clone(), said };
        let shell = Shell::new(tasks.clone(), Arc::new(shards)).with(greeter);
        let mut running = JoinSet::new();
        shell.start(&mut running);
        Self { shell, tasks, wishes, heard, _running: running }
    }

    fn wish(&self, name: &str, wish: &str) {
        self.wishes.lock().expect("not poisoned").insert(Key::new(GREETING, "n", name), wish.to_owned());
        self.changed(ObjectKey::new("example.com", "Greeting", "n", name));
    }

    fn changed(&self, key: ObjectKey) {
        self.shell.dispatch(&Change { key, subjects: Vec::new(), gone: false });
    }

    async fn hears(&mut self) -> String {
        let heard = tokio::time::timeout(Duration::from_secs(10), self.heard.recv()).await;
        heard.expect("something is said soon").expect("the engine runs")
    }

    /// The status once nobody works any more.
    async fn status(&self) -> TaskStatus {
        loop {
            let status = self.tasks.status().remove(0);
            if status.running == 0 && status.depth == 0 {
                return status;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn an_engine_hears_of_its_own_objects_and_of_what_it_watches() {
    let mut world = World::new(Shards::new(None));
    world.wish("a", "Ada");
    assert_eq!(world.hears().await, "Hello Ada");
    world.changed(ObjectKey::new("", "ConfigMap", "n", "words"));
    assert_eq!(world.hears().await, "Hello Ada");
    let pod = ObjectKey::new("", "Pod", "n", "card");
    let subjects = vec![Subject::Owner(Key::new(GREETING, "n", "a").object())];
    world.shell.dispatch(&Change { key: pod, subjects, gone: true });
    assert_eq!(world.hears().await, "Hello Ada", "what it owns is gone");
    world.changed(ObjectKey::new("", "Secret", "n", "words"));
    world.wish("b", "every 20");
    assert_eq!(world.hears().await, "Hello again", "a Secret is of no interest");
    assert_eq!(world.hears().await, "Hello again, in time");
    let status = world.tasks.status().remove(0);
    assert_eq!((status.engine, status.kind.as_str()), ("greeter", "example.com/Greeting"));
    assert!(status.runs >= 3 && status.last_run.is_some() && status.failing == 0, "{status:?}");
}

#[tokio::test]
async fn a_failure_is_repeated_and_shown_until_it_is_over() {
    let mut world = World::new(Shards::new(None));
    world.wish("a", "fail no words");
    assert_eq!(world.hears().await, "sorry: no words");
    assert_eq!(world.hears().await, "sorry: no words, in time");
    let status = world.tasks.status().remove(0);
    assert_eq!(status.failing, 1);
    assert_eq!((status.errors[0].object.as_str(), status.errors[0].error.as_str()), ("n/a", "no words"));
    world.wish("a", "Ada");
    while !world.hears().await.starts_with("Hello Ada") {}
    let status = world.status().await;
    assert_eq!(status.failing, 0, "{status:?}");
    assert!(status.failures >= 2);
}

#[tokio::test]
async fn a_panic_over_one_object_stops_no_other() {
    let mut world = World::new(Shards::new(None));
    world.wish("a", "panic now");
    world.wish("b", "Bob");
    assert_eq!(world.hears().await, "Hello Bob");
    let status = world.status().await;
    assert_eq!((status.panics, status.failing, status.timers), (1, 1, 1), "{status:?}");
}

#[tokio::test]
async fn what_is_not_ours_is_not_reconciled() {
    let folder = std::env::temp_dir().join(format!("slipway-toy-{}", std::process::id()));
    let sharing = Sharing::of_folder(&folder).expect("a name");
    let mut world = World::new(Shards::new(Some(sharing)));
    world.wish("a", "Ada");
    assert_eq!(world.hears().await, "goodbye a", "no lease was taken yet");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn an_engine_asks_the_cluster_for_what_it_watches() {
    let greeting = Subscription::kind("example.com", "Greeting").with_owned();
    assert_eq!(subscriptions::<Greeter>(), [greeting, Subscription::kind("", "ConfigMap")]);
}
