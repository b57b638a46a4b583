use super::*;
use crate::Subscription;
use serde_json::json;
use slipway_crd::names;

fn cache() -> Cache {
    subscribed(vec![Subscription::group(names::GROUP)])
}

fn subscribed(subscriptions: Vec<Subscription>) -> Cache {
    Cache::new(Subscriptions(subscriptions), by_label(), "us".into())
}

fn object(kind: &str, name: &str, uid: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {
        "name": name, "namespace": "n", "uid": uid, "resourceVersion": version.to_string()}})
}

/// A rule of somebody: objects say it by a label.
fn by_label() -> Tracking {
    Tracking::new("label", |object, _| object["metadata"]["labels"]["of"].as_str().map(str::to_owned))
}

fn tracked(mut object: Value, tracker: &str) -> Value {
    object["metadata"]["labels"] = json!({"of": tracker});
    object
}

fn owned(mut object: Value, owner: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([{"uid": owner}]);
    object
}

async fn changes(cache: &Cache) -> Vec<(String, Vec<String>, bool)> {
    let trackers = |change: &Change| change.trackers().map(str::to_owned).collect();
    let taken = cache.feed.take().await.into_iter();
    let mut out: Vec<_> =
        taken.map(|change| (change.key.name.clone(), trackers(&change), change.gone)).collect();
    out.sort();
    out
}

#[tokio::test]
async fn a_change_is_announced_to_the_application_at_the_top() {
    let cache = cache();
    cache.upsert(tracked(object("Deployment", "d", "1", 1), "shop"));
    cache.upsert(owned(object("ReplicaSet", "r", "2", 2), "1"));
    cache.upsert(owned(object("Pod", "p", "3", 3), "2"));
    cache.upsert(object("ConfigMap", "nobody", "4", 4));
    let shop = vec!["shop".to_owned()];
    assert_eq!(
        changes(&cache).await,
        [
            ("d".into(), shop.clone(), false),
            ("p".into(), shop.clone(), false),
            ("r".into(), shop.clone(), false)
        ]
    );
    cache.remove("3");
    assert_eq!(changes(&cache).await, [("p".into(), shop, true)]);
    let names: Vec<String> =
        cache.descendants(&cache.tracked_by("shop")).iter().map(|l| l.key.name.clone()).collect();
    assert_eq!(names, ["r"]);
}

#[tokio::test]
async fn old_news_and_the_dead_do_not_come_back() {
    let cache = cache();
    let key = ObjectKey::new("", "ConfigMap", "n", "a");
    cache.upsert(tracked(object("ConfigMap", "a", "1", 5), "shop"));
    cache.upsert(object("ConfigMap", "a", "1", 4));
    assert_eq!(cache.get(&key).expect("there").tracker.as_deref(), Some("shop"));
    cache.remove("1");
    cache.upsert(tracked(object("ConfigMap", "a", "1", 6), "shop"));
    assert!(cache.get(&key).is_none());
    cache.upsert(tracked(object("ConfigMap", "a", "2", 7), "shop"));
    assert_eq!(cache.get(&key).expect("made again").uid, "2");
    assert_eq!(changes(&cache).await, [("a".into(), vec!["shop".to_owned()], false)]);
}

#[test]
fn a_list_removes_what_it_does_not_have_but_not_what_is_newer() {
    let cache = cache();
    for (name, version) in [("old", 1), ("kept", 2), ("new", 9)] {
        cache.upsert(object("ConfigMap", name, name, version));
    }
    cache.upsert(object("Secret", "other", "other", 1));
    cache.replace_kind("", "ConfigMap", "", vec![object("ConfigMap", "kept", "kept", 2)], "5");
    let mut names: Vec<_> = cache.of_kind("", "ConfigMap").iter().map(|l| l.key.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["kept", "new"]);
    assert_eq!(cache.of_kind("", "Secret").len(), 1);
}

#[tokio::test]
async fn content_is_kept_only_for_those_who_need_it() {
    let cache = cache();
    let key = ObjectKey::new("", "ConfigMap", "n", "a");
    cache.upsert(object("ConfigMap", "a", "1", 1));
    assert!(cache.get(&key).expect("there").object().is_none());
    assert_eq!(cache.set_interest("shop", [key.clone()].into()), std::slice::from_ref(&key));
    cache.upsert(object("ConfigMap", "a", "1", 1));
    assert!(cache.get(&key).expect("there").object().is_some());
    assert_eq!(changes(&cache).await, [("a".into(), vec!["shop".to_owned()], false)]);
    cache.set_interest("shop", HashSet::new());
    cache.remove("1");
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(20), cache.feed.take()).await;
    assert!(nothing.is_err());
}

#[test]
fn only_the_managed_fields_that_somebody_asks_about_are_kept() {
    let cache = cache();
    let mut ours = tracked(object("ConfigMap", "c", "2", 1), "shop");
    ours["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update"},
        {"manager": "us", "operation": "Apply"}]);
    cache.upsert(ours);
    let kept = cache.tracked_by("shop")[0].object().expect("kept");
    assert_eq!(kept["metadata"]["managedFields"].as_array().map(Vec::len), Some(1));
}

#[test]
fn another_rule_forgets_what_was_indexed_by_the_one_before() {
    let cache = cache();
    cache.upsert(tracked(object("ConfigMap", "a", "1", 1), "shop"));
    assert!(!cache.track_by(by_label()), "the same rule again");
    assert_eq!(cache.tracked_by("shop").len(), 1);
    assert!(cache.track_by(Tracking::new("by name", |_, key| Some(key.name.clone()))));
    assert!(cache.tracked_by("shop").is_empty());
    cache.upsert(tracked(object("ConfigMap", "a", "1", 1), "shop"));
    assert_eq!(cache.tracked_by("a").len(), 1);
}

#[tokio::test]
async fn a_rollout_hears_of_its_pods_and_nobody_else_does() {
    let rollout = Subscription::kind(names::GROUP, "Rollout").with_owned();
    let cache = subscribed(vec![rollout.clone(), Subscription::group(names::GROUP).quiet()]);
    let mut web = object("Rollout", "web", "1", 1);
    web["apiVersion"] = names::API_VERSION.into();
    cache.upsert(web);
    cache.upsert(owned(object("ReplicaSet", "web-7", "2", 2), "1"));
    cache.upsert(owned(object("Pod", "web-7-a", "3", 3), "2"));
    cache.upsert(object("ReplicaSet", "other", "4", 4));
    cache.upsert(owned(object("Pod", "other-a", "5", 5), "4"));
    let owners = async || {
        let taken = cache.feed.take().await.into_iter();
        let owners = |change: &Change| change.owners().map(|key| key.name.clone()).collect::<Vec<_>>();
        let mut out: Vec<_> = taken.map(|change| (change.key.name.clone(), owners(&change))).collect();
        out.sort();
        out
    };
    let web = vec!["web".to_owned()];
    assert_eq!(
        owners().await,
        [("web".into(), vec![]), ("web-7".into(), web.clone()), ("web-7-a".into(), web.clone())]
    );
    // What goes says for the last time whose it was.
    cache.remove("3");
    cache.remove("5");
    assert_eq!(owners().await, [("web-7-a".to_owned(), web)]);
}

#[test]
fn what_is_kept_is_for_the_subscriber_to_say() {
    let ours = Subscription::kind("", "Secret").in_namespace("n");
    let cache = subscribed(vec![ours, Subscription::kind("", "Namespace").quiet()]);
    let mut elsewhere = object("Secret", "b", "2", 1);
    elsewhere["metadata"]["namespace"] = "other".into();
    for object in [object("Secret", "a", "1", 1), elsewhere, object("ConfigMap", "c", "3", 1)] {
        cache.upsert(object);
    }
    let kept = |uid: &str| cache.inner.read().expect("not poisoned").objects[uid].body.is_some();
    assert!(kept("1") && !kept("2") && !kept("3"));
}

#[test]
fn the_index_by_kind_forgets_what_is_gone() {
    let cache = cache();
    cache.upsert(object("ConfigMap", "a", "1", 1));
    cache.upsert(object("ConfigMap", "b", "2", 2));
    cache.upsert(object("ConfigMap", "a", "1", 3));
    assert_eq!((cache.of_kind("", "ConfigMap").len(), cache.of_kind("", "Secret").len()), (2, 0));
    cache.remove("1");
    cache.remove("2");
    assert!(cache.of_kind("", "ConfigMap").is_empty());
    assert!(cache.inner.read().expect("not poisoned").by_kind.is_empty(), "no empty entry is left behind");
}
