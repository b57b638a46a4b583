//! A database of before people could be in several accounts.

use slipway_model::{AccountId, BuildId};
use slipway_store::{Scope, Store, applications, builds, identity};

use crate::engines::On;

/// Run on a database as it was before; later files are none of its business.
const NUMBERS: &str = include_str!("../../migrations/0020_build_numbers.sql");

crate::on_both!(
    builds_of_an_older_database_are_numbered_in_their_order,
    applications_of_an_older_database_are_there_until_their_runtime_reports_again,
    builds_of_an_older_database_are_found_by_their_commit,
);

async fn builds_of_an_older_database_are_numbered_in_their_order(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let url = crate::engines::url(on, folder.path());
    Store::connect(&url).unwrap().close();
    let (account, one, two) =
        ("ac0000000000000000000001", "ac0000000000000000000011", "ac0000000000000000000012");
    let mut sql = format!(
        "DROP INDEX builds_numbered; DROP INDEX builds_short; DROP TABLE build_numbers; ALTER TABLE builds DROP COLUMN number;
         INSERT INTO accounts (id, name, created_ms) VALUES ('{account}', 'acme', 5);"
    );
    for (id, pipeline) in [(1, one), (2, two), (3, one), (4, one)] {
        sql += &format!(
            "INSERT INTO builds (id, account, pipeline, pipeline_name, status, created_ms, order_body, steps, cause) \
             VALUES ('ac000000000000000000010{id}', '{account}', '{pipeline}', 'p', 'success', 1, '{{}}', '[]', '{id}');"
        );
    }
    match on {
        On::Sqlite => {
            let old = rusqlite::Connection::open(folder.path().join("slipway.db")).unwrap();
            old.execute_batch(&format!("{sql} {NUMBERS}")).unwrap();
        }
        On::Postgres => {
            let database = url.to_string().rsplit('/').next().unwrap().to_owned();
            let sql = format!("SET search_path = pipeline_manager, pipelines_api, slipway; {sql} {NUMBERS}");
            slipway_testkit::postgres::shared().psql(&database, &sql).unwrap();
        }
    }
    let store = Store::connect(&url).unwrap();
    let scope = Scope::of(account.parse::<AccountId>().unwrap());
    let mut numbers = Vec::new();
    for id in 1..=4 {
        let id: BuildId = format!("ac000000000000000000010{id}").parse().unwrap();
        numbers.push(store.read(move |tx| builds::by_id(tx, scope, id)).await.unwrap().unwrap().number);
    }
    assert_eq!(numbers, [1, 1, 2, 3]);
    let next = store.write(move |tx| {
        let new = builds::NewBuild {
            id: "ac0000000000000000000200".parse().unwrap(),
            pipeline: one.parse().unwrap(),
            pipeline_name: "p",
            order: &(),
            cause: "new",
            queue: Default::default(),
        };
        let id = builds::create(tx, scope, &new, 1)?;
        Ok(builds::by_id(tx, scope, id)?.unwrap().number)
    });
    assert_eq!(next.await.unwrap(), 4);
}

async fn builds_of_an_older_database_are_found_by_their_commit(on: On) {
    const FOUND: &str = include_str!("../../migrations/0031_found_builds.sql");
    let folder = tempfile::tempdir().unwrap();
    let url = crate::engines::url(on, folder.path());
    Store::connect(&url).unwrap().close();
    let (account, long) = ("ac0000000000000000000001", "ab".repeat(32));
    let mut sql = format!(
        "DROP INDEX builds_by_revision; DROP INDEX builds_by_status; ALTER TABLE builds DROP COLUMN revision;
         INSERT INTO accounts (id, name, created_ms) VALUES ('{account}', 'acme', 5);"
    );
    let orders = [
        r#"{"source":{}}"#.to_owned(),
        r#"{"commit":{"repo":"a/b","sha":"ABC1234","message":"m"}}"#.to_owned(),
        format!(r#"{{"commit":{{"sha":"{long}"}}}}"#),
        r#"{"commit":{"sha":"abcdef"}}"#.to_owned(),
    ];
    for (id, order) in orders.iter().enumerate() {
        sql += &format!(
            "INSERT INTO builds (id, account, pipeline, pipeline_name, status, created_ms, order_body, steps, cause, number) \
             VALUES ('ac000000000000000000010{id}', '{account}', 'ac0000000000000000000011', 'p', 'success', 1, '{order}', '[]', '{id}', {id});"
        );
    }
    match on {
        On::Sqlite => {
            let old = rusqlite::Connection::open(folder.path().join("slipway.db")).unwrap();
            old.execute_batch(&format!("{sql} {FOUND}")).unwrap();
        }
        On::Postgres => {
            let database = url.to_string().rsplit('/').next().unwrap().to_owned();
            let found = FOUND.replace("instr(", "strpos(").replace("TEXT", "TEXT COLLATE \"C\"");
            let sql = format!("SET search_path = pipeline_manager, pipelines_api, slipway; {sql} {found}");
            slipway_testkit::postgres::shared().psql(&database, &sql).unwrap();
        }
    }
    let store = Store::connect(&url).unwrap();
    let scope = Scope::of(account.parse::<AccountId>().unwrap());
    for (first, numbers) in
        [("abc", vec![3, 1]), ("ABC12", vec![1]), ("abab", vec![2]), (&*long, vec![2]), ("c", vec![])]
    {
        let filter = builds::Filter { revision: Some(first.into()), limit: 9, ..Default::default() };
        let (found, total) = store.read(move |tx| builds::list(tx, scope, &filter)).await.unwrap();
        assert_eq!(found.iter().map(|build| build.number).collect::<Vec<_>>(), numbers, "{first}");
        assert_eq!(total, i64::try_from(numbers.len()).unwrap());
    }
}

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

/// Identities of before belonged to nobody's provider in particular (REVIEW C4).
#[tokio::test]
async fn identities_of_an_older_database_go_to_the_providers_of_the_persons_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let (acme, evil, ada) =
        ("ac0000000000000000000001", "ac0000000000000000000002", "ac0000000000000000000003");
    let (corp, rogue, other) =
        ("ac0000000000000000000011", "ac0000000000000000000012", "ac0000000000000000000013");
    {
        let old = rusqlite::Connection::open(folder.path().join("slipway.db")).unwrap();
        for migration in [
            include_str!("../../migrations/0001_skeleton.sql"),
            include_str!("../../migrations/0002_control_plane.sql"),
            include_str!("../../migrations/0003_bus.sql"),
            include_str!("../../migrations/0004_members_and_groups.sql"),
            include_str!("../../migrations/0010_pipelines.sql"),
            include_str!("../../migrations/0014_images_and_step_types.sql"),
            include_str!("../../migrations/0015_queue_indexes.sql"),
            include_str!("../../migrations/0016_counted_builds.sql"),
            include_str!("../../migrations/0017_debugging.sql"),
            include_str!("../../migrations/0018_agents_run_builds.sql"),
        ] {
            old.execute_batch(migration).unwrap();
        }
        let client = |id: &str, account: &str, name: &str, issuer: &str| {
            format!(
                "INSERT INTO sso_clients (id, account, name, kind, settings, enabled, created_ms) VALUES \
                ('{id}', '{account}', '{name}', 'oidc', '{{\"displayName\":\"\",\"issuer\":\"{issuer}\",\"clientId\":\"x\"}}', 1, 7);"
            )
        };
        let session = |token: &str, method: &str| {
            format!(
                "INSERT INTO sessions (token_hash, user_id, csrf, created_ms, last_seen_ms, id, account, method) VALUES \
                ('{token}', '{ada}', 'c', 8, 8, 'ac00000000000000000000{token}', '{acme}', '{method}');"
            )
        };
        old.execute_batch(&format!(
            "INSERT INTO accounts (id, name, created_ms) VALUES ('{acme}', 'acme', 5), ('{evil}', 'evil', 6);
             INSERT INTO users (id, active_account, email, name, password_hash, created_ms) VALUES ('{ada}', '{acme}', 'ada@example.com', 'Ada', 'hash', 6);
             INSERT INTO memberships (account, user_id, role, created_ms) VALUES ('{acme}', '{ada}', 'Admin', 6);
             {}{}{}{}{}
             INSERT INTO external_identities VALUES ('https://id.example', 's1', '{ada}', 9);
             PRAGMA user_version = 18;",
            client(corp, acme, "corp", "https://id.example"),
            client(rogue, evil, "rogue", "https://id.example"),
            client(other, acme, "other", "https://id.example.evil"),
            session("21", "password"),
            session("22", "corp"),
        ))
        .unwrap();
    }
    let store = Store::open(folder.path()).unwrap();
    let (ada, corp, rogue) = (ada.parse().unwrap(), corp.parse().unwrap(), rogue.parse().unwrap());
    let linked = store.read(move |tx| identity::identities_of(tx, ada)).await.unwrap();
    let seen: Vec<_> =
        linked.iter().map(|one| (one.client, one.issuer.as_str(), one.subject.as_str())).collect();
    assert_eq!(
        seen,
        [(corp, "https://id.example", "s1")],
        "not at the provider of an account that she is not in"
    );
    let as_rogue = move |tx: &mut slipway_store::Tx<'_>| {
        identity::user_by_identity(tx, rogue, "https://id.example", "s1")
    };
    assert!(store.read(as_rogue).await.unwrap().is_none());
    assert!(
        store.read(|tx| identity::session(tx, "21")).await.unwrap().is_some(),
        "a session by password goes on"
    );
    assert!(
        store.read(|tx| identity::session(tx, "22")).await.unwrap().is_none(),
        "one by a provider does not"
    );
    let front = store.read(slipway_store::sso::on_front_page).await.unwrap();
    let names: Vec<_> = front.iter().map(|client| client.name.as_str()).collect();
    assert_eq!(names, ["corp", "other"], "the first account's stay on everybody's page");
}

async fn applications_of_an_older_database_are_there_until_their_runtime_reports_again(on: On) {
    const ENTITIES: &str = include_str!("../../migrations/0030_entities.sql");
    let folder = tempfile::tempdir().unwrap();
    let url = crate::engines::url(on, folder.path());
    Store::connect(&url).unwrap().close();
    let account = "ac0000000000000000000001";
    let sql = format!(
        "DROP TABLE entities; DROP TABLE complete_reports; ALTER TABLE runtimes DROP COLUMN sequence; \
         CREATE TABLE applications (account TEXT NOT NULL, runtime TEXT NOT NULL, namespace TEXT NOT NULL, \
         name TEXT NOT NULL, body TEXT NOT NULL, summary TEXT NOT NULL DEFAULT ''); \
         INSERT INTO accounts (id, name, created_ms) VALUES ('{account}', 'acme', 5); \
         INSERT INTO applications VALUES ('{account}', 'local', 'argocd', 'shop', 'whole', 'short');"
    );
    match on {
        On::Sqlite => {
            let old = rusqlite::Connection::open(folder.path().join("slipway.db")).unwrap();
            old.execute_batch(&format!("{sql} {ENTITIES}")).unwrap();
        }
        On::Postgres => {
            let database = url.to_string().rsplit('/').next().unwrap().to_owned();
            let new = ENTITIES.replace("INTEGER", "BIGINT");
            let sql = format!("SET search_path = event_handler, pipelines_api, slipway; {sql} {new}");
            slipway_testkit::postgres::shared().psql(&database, &sql).unwrap();
        }
    }
    let store = Store::connect(&url).unwrap();
    let scope = Scope::of(account.parse::<AccountId>().unwrap());
    let kept = store.read(move |tx| {
        let one = applications::one(tx, scope, "local", "argocd", "shop")?;
        Ok((applications::list(tx, scope, None)?, one))
    });
    assert_eq!(kept.await.unwrap(), (vec!["short".to_owned()], Some("whole".to_owned())));
}
