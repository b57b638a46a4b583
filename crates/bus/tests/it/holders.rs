use slipway_bus::{Holder, Holders, LiveUrl};
use slipway_testkit::redis;

fn held(name: &str, note: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), note.to_owned())]
}

fn holder(process: &str, note: &str) -> Holder {
    Holder { process: process.into(), address: format!("http://{process}.test"), note: note.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_leads_to_those_who_hold_it_and_live() {
    let server = tokio::task::spawn_blocking(redis::Server::start).await.unwrap();
    let url: LiveUrl = server.url().parse().unwrap();
    let process = |name: &str| Holders::new(&url, name, &format!("http://{name}.test")).unwrap();
    let (one, two, three) = (process("one"), process("two"), process("three"));
    one.say(&held("a", "first")).await.unwrap();
    two.say(&held("a", "second")).await.unwrap();
    two.say(&held("b", "other")).await.unwrap();
    three.say(&[]).await.unwrap();
    let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let mut found = three.others(&names).await.unwrap();
    found[0].sort_by(|left, right| left.process.cmp(&right.process));
    assert_eq!(
        found,
        [vec![holder("one", "first"), holder("two", "second")], vec![holder("two", "other")], vec![]]
    );
    assert_eq!(one.others(&names[..1]).await.unwrap(), [vec![holder("two", "second")]], "others alone");
    // One lets go, one is found not to have it, one ends.
    one.release("a").await.unwrap();
    assert_eq!(three.others(&names[..1]).await.unwrap(), [vec![holder("two", "second")]]);
    three.forget("a", "two").await.unwrap();
    assert_eq!(three.others(&names).await.unwrap(), [vec![], vec![holder("two", "other")], vec![]]);
    two.leave().await.unwrap();
    assert_eq!(three.others(&names).await.unwrap(), [vec![], vec![], vec![]]);
    // A Redis that lost everything has it again after one word of each.
    server.stop();
    assert!(three.others(&names).await.unwrap_err().to_string().contains("the cache does not answer"));
    tokio::task::block_in_place(|| server.run());
    assert_eq!(three.others(&names).await.unwrap(), [vec![], vec![], vec![]]);
    one.say(&held("a", "again")).await.unwrap();
    assert_eq!(three.others(&names[..1]).await.unwrap(), [vec![holder("one", "again")]]);
}

#[tokio::test]
async fn within_one_process_there_are_no_others() {
    let alone = Holders::new(&LiveUrl::InProcess, "one", "").unwrap();
    alone.say(&held("a", "x")).await.unwrap();
    assert!(!alone.reaches_others() && alone.others(&["a".to_owned()]).await.unwrap() == [vec![]]);
}
