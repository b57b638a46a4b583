//! A database of before people could be in several accounts.

use slipway_model::AccountId;
use slipway_store::{Scope, Store, identity};

#[tokio::test]
async fn people_of_an_older_database_keep_their_role_and_sign_in_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let (account, ada, bob) =
        ("ac0000000000000000000001", "ac0000000000000000000002", "ac0000000000000000000003");
    {
        let old = rusqlite::Connection::open(folder.path().join("slipway.db")).unwrap();
        old.execute_batch(include_str!("../../migrations/0001_skeleton.sql")).unwrap();
        old.execute_batch(&format!(
            "INSERT INTO accounts VALUES ('{account}', 'acme', 5);
             INSERT INTO users VALUES ('{ada}', '{account}', 'ada@example.com', 'Ada', 'hash', 'Admin', 6);
             INSERT INTO users VALUES ('{bob}', '{account}', 'bob@example.com', 'Bob', 'hash', 'User', 7);
             INSERT INTO sessions VALUES ('t', '{ada}', 'c', 8, 8);
             INSERT INTO api_keys VALUES ('ac0000000000000000000004', '{account}', 'k', 'p', 'h', 'user', '{ada}', '[]', 9, NULL);
             PRAGMA user_version = 1;"
        ))
        .unwrap();
    }
    let store = Store::open(folder.path()).unwrap();
    let id: AccountId = account.parse().unwrap();
    let scope = Scope::of(id);
    let members = store.read(move |tx| identity::members(tx, scope)).await.unwrap();
    let seen: Vec<_> = members
        .iter()
        .map(|member| {
            (member.user.name.as_str(), member.role.as_str(), member.user.platform_admin, member.user.enabled)
        })
        .collect();
    assert_eq!(seen, [("Ada", "Admin", true, true), ("Bob", "User", false, true)]);
    assert!(members.iter().all(|member| member.user.active_account == id));
    assert!(store.read(|tx| identity::session(tx, "t")).await.unwrap().is_none());
    assert_eq!(store.read(move |tx| identity::keys_of_account(tx, scope)).await.unwrap().len(), 1);
    let found = store.read(move |tx| identity::account_by_id(tx, id)).await.unwrap().unwrap();
    assert_eq!((found.status, found.settings.as_str()), (identity::AccountStatus::Active, "{}"));
}
