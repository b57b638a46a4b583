//! What stands around builds, the same on both engines: pipelines and their history, projects, schedules, events of
//! registries, hooks, reports, types of steps, approvals, debugging, Applications.

use slipway_model::{AccountId, BuildId, DeliveryId, HookId, PipelineId};
use slipway_store::approvals::Approval;
use slipway_store::builds::NewBuild;
use slipway_store::debug::DebugOrder;
use slipway_store::deferred::Deferred;
use slipway_store::hooks::Hook;
use slipway_store::outgoing::Outgoing;
use slipway_store::pipelines::{Change, Pipeline};
use slipway_store::projects::Project;
use slipway_store::step_types::StepType;
use slipway_store::trigger_events::{EventTrigger, TriggerEvent};
use slipway_store::{
    Scope, Store, StoreError, Tx, applications, approvals, builds, cron, debug, deferred, entities, hooks,
    identity, outgoing, pipelines, projects, step_types, trigger_events, usage,
};

use crate::engines::{On, open};

crate::on_both!(
    schedules_and_events_of_registries_are_found_and_each_tick_is_followed_once,
    a_pipeline_has_a_history_and_follows_its_project,
    hooks_and_reports_are_due_until_they_are_done,
    types_approvals_and_debug_orders_are_kept,
    applications_are_counted_with_their_runtime,
    a_page_of_entities_is_asked_for_and_put_together,
    what_cannot_be_followed_up_is_due_again_until_it_is_given_up,
    builds_are_numbered_within_their_pipeline_and_found_by_what_is_shown,
);

fn id<T>(number: u8) -> slipway_model::Id<T> {
    slipway_model::Id::from_parts(u64::from(number), [number; 5])
}

async fn store(on: On) -> (Store, Scope, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let account: AccountId = id(1);
    store.write(move |tx| identity::create_account(tx, account, "acme", 1)).await.unwrap();
    (store, Scope::of(account), folder)
}

fn pipeline(number: u8, name: &str, body: &str) -> Pipeline {
    Pipeline {
        id: id(number),
        name: name.into(),
        body: body.into(),
        revision: 1,
        created_ms: 1,
        updated_ms: 1,
    }
}

fn build(tx: &mut Tx<'_>, scope: Scope, number: u8, of: PipelineId) -> Result<BuildId, StoreError> {
    let (cause, order) = (format!("cause {number}"), "{}");
    let new = NewBuild {
        id: id(number),
        pipeline: of,
        pipeline_name: "shop/web",
        order: &order,
        cause: &cause,
        queue: Default::default(),
    };
    builds::create(tx, scope, &new, i64::from(number))
}

async fn schedules_and_events_of_registries_are_found_and_each_tick_is_followed_once(on: On) {
    let (store, scope, _folder) = store(on).await;
    let done = store.write(move |tx| {
        pipelines::create(tx, scope, &pipeline(9, "shop/web", r#"{"spec":{"cronTriggers":[]}}"#), "ada")?;
        pipelines::create(tx, scope, &pipeline(8, "shop/api", "{}"), "ada")?;
        for (uri, kind) in [("cron:codefresh:* * * * *:each minute", "cron"), ("registry:x:push", "registry")]
        {
            let event = TriggerEvent {
                uri: uri.into(),
                kind: kind.into(),
                secret: "sealed".into(),
                description: String::new(),
                created_ms: 1,
            };
            trigger_events::create(tx, scope, &event)?;
            let link = EventTrigger { uri: uri.into(), pipeline: id(9), filters: "{}".into() };
            trigger_events::connect(tx, scope, &link)?;
            trigger_events::connect(tx, scope, &EventTrigger { filters: r#"{"tag":"1"}"#.into(), ..link })?;
        }
        Ok(())
    });
    done.await.unwrap();
    let found = store.read(move |tx| {
        Ok((
            trigger_events::links_beginning(tx, "cron:")?,
            pipelines::clocked(tx)?,
            trigger_events::links(tx, scope)?,
            trigger_events::list(tx, scope)?,
            trigger_events::of_account(tx, scope.account())?,
        ))
    });
    let (cron_links, clocked, links, events, of_account) = found.await.unwrap();
    assert_eq!(cron_links.len(), 1);
    assert_eq!((cron_links[0].0, cron_links[0].1.filters.as_str()), (scope.account(), r#"{"tag":"1"}"#));
    assert_eq!(clocked.len(), 1);
    assert_eq!(clocked[0].1.name, "shop/web");
    assert_eq!((links.len(), events.len(), of_account.len()), (2, 2, 2));
    let naming = async |text: &'static str| {
        let found = store.read(move |tx| pipelines::naming(tx, scope, text)).await.unwrap();
        found.into_iter().map(|pipeline| pipeline.name).collect::<Vec<_>>()
    };
    let naming_it = store.write(move |tx| {
        pipelines::create(tx, scope, &pipeline(7, "shop/repo", r#"{"repo":"Acme/My_App"}"#), "ada")
    });
    naming_it.await.unwrap();
    assert_eq!(naming("acme/my_app").await, ["shop/repo"]);
    assert!(naming("acme/my-app").await.is_empty(), "no letter stands for another");
    assert!(naming("acme/my").await.is_empty(), "the whole name");
    let tick = |at_ms: i64| store.write(move |tx| cron::note_tick(tx, id(9), "nightly", at_ms));
    assert!(tick(60_000).await.unwrap());
    assert!(!tick(60_000).await.unwrap(), "somebody else followed it up");
    assert!(tick(120_000).await.unwrap());
    assert_eq!(store.read(cron::last_ticks).await.unwrap()[&(id(9), "nightly".into())], 120_000);
    let gone = store.write(move |tx| {
        let gone = trigger_events::disconnect(tx, scope, "registry:x:push", id(9))?;
        trigger_events::delete(tx, scope, "cron:codefresh:* * * * *:each minute")?;
        Ok((gone, trigger_events::links(tx, scope)?.len(), trigger_events::list(tx, scope)?.len()))
    });
    assert_eq!(gone.await.unwrap(), (true, 0, 1));
}

async fn a_pipeline_has_a_history_and_follows_its_project(on: On) {
    let (store, scope, _folder) = store(on).await;
    let done = store.write(move |tx| {
        let shop = projects::ensure(tx, scope, id(3), "shop", 1)?;
        projects::ensure(tx, scope, id(4), "shop", 1)?;
        pipelines::create(tx, scope, &pipeline(9, "shop/web", "one"), "ada")?;
        pipelines::create(tx, scope, &pipeline(8, "bare", "one"), "ada")?;
        let change = Change { name: "shop/web", body: "two", expect: Some(1), author: "bob", now_ms: 2 };
        pipelines::replace(tx, scope, id(9), &change)?;
        pipelines::replace(tx, scope, id(9), &Change { body: "three", expect: None, ..change })?;
        let counted = (
            pipelines::count_named(tx, scope, "shop/", false)?,
            pipelines::count_named(tx, scope, "shop/", true)?,
        );
        projects::update(tx, scope, &Project { name: "store".into(), tags: vec!["x".into()], ..shop })?;
        pipelines::rename_project(tx, scope, "shop", "store")?;
        Ok(counted)
    });
    assert_eq!(done.await.unwrap(), (1, 2));
    let stale = store.write(move |tx| {
        let change = Change { name: "store/web", body: "late", expect: Some(1), author: "eve", now_ms: 3 };
        pipelines::replace(tx, scope, id(9), &change)
    });
    assert!(matches!(stale.await, Err(StoreError::Conflict { .. })));
    let found = store.read(move |tx| {
        Ok((
            pipelines::revisions(tx, id(9))?,
            pipelines::revision_of(tx, id(9), 2)?,
            pipelines::list(tx, scope)?,
            pipelines::names_everywhere(tx)?,
            projects::list(tx, scope)?,
            projects::by_id(tx, scope, id(3))?,
        ))
    });
    let (revisions, second, list, everywhere, all, shop) = found.await.unwrap();
    assert_eq!(
        revisions.iter().map(|one| (one.revision, one.author.as_str())).collect::<Vec<_>>(),
        [(3, "bob"), (2, "bob"), (1, "ada")]
    );
    assert_eq!(second.unwrap().body, "two");
    assert_eq!(list.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["bare", "store/web"]);
    assert_eq!(everywhere.len(), 2);
    assert_eq!(all.len(), 1);
    assert_eq!(shop.unwrap().tags, ["x"]);
    let gone = store.write(move |tx| {
        pipelines::delete(tx, scope, id(9))?;
        projects::delete(tx, scope, id(3))?;
        Ok((pipelines::revisions(tx, id(9))?.len(), projects::by_name(tx, scope, "store")?.is_none()))
    });
    assert_eq!(gone.await.unwrap(), (0, true));
}

async fn hooks_and_reports_are_due_until_they_are_done(on: On) {
    let (store, scope, _folder) = store(on).await;
    let hook: HookId = id(6);
    let done = store.write(move |tx| {
        let new = Hook {
            id: hook,
            account: scope.account(),
            context: "github".into(),
            repo: "a/b".into(),
            secret: "sealed".into(),
            remote: None,
            problem: None,
            polled_ms: 0,
            heard_ms: None,
            created_ms: 1,
        };
        hooks::ensure(tx, &new)?;
        hooks::ensure(tx, &Hook { id: id(7), ..new })?;
        hooks::failed(tx, hook, "no answer", 100)?;
        let early = hooks::unregistered(tx, 99)?.len();
        let due = hooks::unregistered(tx, 100)?.len();
        hooks::registered(tx, hook, "42")?;
        hooks::heard(tx, hook, 5)?;
        let unpolled = hooks::unpolled(tx, 10)?.len();
        hooks::polled(tx, hook, 10)?;
        hooks::note_ref(tx, hook, "refs/heads/main", Some("abc"))?;
        hooks::note_ref(tx, hook, "refs/heads/main", Some("def"))?;
        hooks::note_ref(tx, hook, "refs/heads/old", Some("abc"))?;
        hooks::note_ref(tx, hook, "refs/heads/old", None)?;
        Ok((early, due, unpolled, hooks::unpolled(tx, 10)?.len(), hooks::list(tx, scope)?.len()))
    });
    assert_eq!(done.await.unwrap(), (0, 1, 1, 0, 1));
    let found = store.read(move |tx| Ok((hooks::by_id(tx, hook)?.unwrap(), hooks::refs(tx, hook)?)));
    let (kept, refs) = found.await.unwrap();
    assert_eq!((kept.remote.as_deref(), kept.problem, kept.heard_ms), (Some("42"), None, Some(5)));
    assert_eq!(refs.into_iter().collect::<Vec<_>>(), [("refs/heads/main".to_owned(), "def".to_owned())]);

    let told = store.write(move |tx| {
        let (one, two): (DeliveryId, DeliveryId) = (id(2), id(3));
        let new = Outgoing {
            id: one,
            account: scope.account(),
            kind: "slack".into(),
            target: "team".into(),
            build: "b".into(),
            body: "{}".into(),
            attempts: 0,
            problem: None,
            created_ms: 1,
            done_ms: None,
        };
        outgoing::add(tx, &new)?;
        outgoing::add(tx, &Outgoing { id: id(5), ..new.clone() })?;
        outgoing::add(tx, &Outgoing { id: two, target: "other".into(), ..new.clone() })?;
        // Of the same build to the same place: it waits for the one before.
        let after = Outgoing { id: id(6), body: "{\"after\":1}".into(), created_ms: 2, ..new };
        outgoing::add(tx, &after)?;
        outgoing::later(tx, one, "no answer", 500)?;
        outgoing::done(tx, two, None, 3)?;
        let (early, due) = (outgoing::due(tx, 499)?.len(), outgoing::due(tx, 500)?);
        let due: Vec<_> = due.into_iter().map(|row| row.id).collect();
        outgoing::done(tx, one, None, 501)?;
        let next: Vec<_> = outgoing::due(tx, 501)?.into_iter().map(|row| row.id).collect();
        let listed =
            (outgoing::list(tx, scope, Some("b"), 10)?.len(), outgoing::list(tx, scope, None, 1)?.len());
        Ok((early, due, next, listed))
    });
    assert_eq!(told.await.unwrap(), (0, vec![id(2)], vec![id(6)], (3, 1)));
    store.write(move |tx| hooks::delete(tx, scope, hook)).await.unwrap();
    assert!(store.read(move |tx| hooks::refs(tx, hook)).await.unwrap().is_empty());
}

async fn types_approvals_and_debug_orders_are_kept(on: On) {
    let (store, scope, _folder) = store(on).await;
    let step_type = |version: &str, body: &str| StepType {
        name: "acme/x".into(),
        version: version.into(),
        body: body.into(),
        digest: "d".into(),
        created_ms: 1,
        updated_ms: 2,
    };
    let (first, second, again) = (step_type("1", "a"), step_type("2", "b"), step_type("1", "c"));
    let kept = store.write(move |tx| {
        for one in [&first, &second, &again] {
            step_types::put(tx, scope, one)?;
        }
        let bodies: Vec<_> = step_types::list(tx, scope)?.into_iter().map(|one| one.body).collect();
        step_types::delete(tx, scope, "acme/x", Some("1"))?;
        let left = step_types::list(tx, scope)?.len();
        step_types::delete(tx, scope, "acme/x", None)?;
        Ok((bodies, left, step_types::list(tx, scope)?.len()))
    });
    assert_eq!(kept.await.unwrap(), (vec!["c".to_owned(), "b".to_owned()], 1, 0));

    let decided = store.write(move |tx| {
        pipelines::create(tx, scope, &pipeline(9, "shop/web", "{}"), "ada")?;
        let build = build(tx, scope, 5, id(9))?;
        let yes = Approval {
            step: "ask".into(),
            approved: true,
            by_kind: "user".into(),
            by_id: "1".into(),
            by_name: "ada".into(),
            reason: None,
            at_ms: 1,
        };
        let no = Approval { approved: false, reason: Some("late".into()), ..yes.clone() };
        approvals::decide(tx, scope, build, &yes)?;
        let counts = approvals::decide(tx, scope, build, &no)?;
        let order = DebugOrder {
            id: "o".into(),
            build,
            action: "continue".into(),
            step: "ask".into(),
            phase: "before".into(),
            by_id: "1".into(),
            by_name: "ada".into(),
            body: "{}".into(),
            at_ms: 1,
        };
        debug::give(tx, scope, &order)?;
        let orders = debug::of_build(tx, build)?;
        let one = debug::by_id(tx, build, "o")?;
        Ok((counts.approved, approvals::of_build(tx, build)?.len(), orders.len(), one == Some(order)))
    });
    assert_eq!(decided.await.unwrap(), (true, 1, 1, true));
}

async fn applications_are_counted_with_their_runtime(on: On) {
    let (store, scope, _folder) = store(on).await;
    let counted = store.write(move |tx| {
        for name in ["one", "two"] {
            let runtime = applications::Runtime {
                name: name.into(),
                version: "1".into(),
                cluster: "https://kubernetes.default.svc".into(),
                ingress_url: String::new(),
                last_seen_ms: 1,
                sequence: 3,
                applications: 0,
            };
            applications::runtime_seen(tx, scope, &runtime)?;
        }
        applications::touch_runtime(tx, scope, "one", 7)?;
        for (name, body) in [("web", "a"), ("web", "b"), ("api", "c")] {
            let app = entities::Reported {
                uid: "",
                resource_version: "",
                sequence: 1,
                state: "{}",
                summary: body,
                body,
                told: "",
            };
            let of = entities::Name { kind: entities::APPLICATION, namespace: "default", name };
            entities::put(tx, scope, "one", &[(of, app)])?;
        }
        let api = entities::Name { kind: entities::APPLICATION, namespace: "default", name: "api" };
        let gone = |tx: &mut Tx<'_>| {
            Ok::<_, StoreError>(entities::known(tx, scope, "one", &[api])?.get(&api).map(|known| known.gone))
        };
        entities::remove(tx, scope, "one", api, 0, 9)?;
        assert_eq!(gone(tx)?, Some(false), "late");
        entities::remove(tx, scope, "one", api, 2, 9)?;
        assert_eq!(gone(tx)?, Some(true));
        assert_eq!((entities::count(tx, scope, "one")?, entities::forget_gone(tx, scope, "one", 9)?), (2, 0));
        assert_eq!(entities::forget_gone(tx, scope, "one", 10)?, 1);
        let runtimes = applications::runtimes(tx, scope)?;
        let shown: Vec<_> = runtimes.iter().map(|one| (one.last_seen_ms, one.applications)).collect();
        let kept = (
            entities::list(tx, scope, entities::APPLICATION, ("", "", ""), 9)?.len(),
            applications::list(tx, scope, None)?,
            applications::one(tx, scope, "one", "default", "web")?,
        );
        let used = usage::count(tx, scope)?;
        assert_eq!(used.clusters, 2, "two that are called alike");
        let runtimes = usage::everywhere(tx)?.runtimes;
        assert!(
            applications::forget_runtime(tx, scope, "one")?
                && !applications::forget_runtime(tx, scope, "one")?
        );
        assert!(applications::list(tx, scope, None)?.is_empty());
        Ok((shown, kept, used.applications, runtimes))
    });
    let (shown, kept, used, runtimes) = counted.await.unwrap();
    assert_eq!(shown, [(7, 1), (1, 0)]);
    assert_eq!(kept, (1, vec!["b".to_owned()], Some("b".to_owned())));
    assert_eq!((used, runtimes), (1, 2));
}

async fn builds_are_numbered_within_their_pipeline_and_found_by_what_is_shown(on: On) {
    let (store, scope, _folder) = store(on).await;
    let made = store.write(move |tx| {
        pipelines::create(tx, scope, &pipeline(9, "shop/web", "{}"), "ada")?;
        pipelines::create(tx, scope, &pipeline(8, "shop/api", "{}"), "ada")?;
        for (number, of) in [(20, 9), (21, 8), (22, 9), (22, 9)] {
            build(tx, scope, number, id(of))?;
        }
        Ok(())
    });
    made.await.unwrap();
    let number = |of: u8| store.read(move |tx| Ok(builds::by_id(tx, scope, id(of))?.unwrap().number));
    assert_eq!((number(20).await.unwrap(), number(21).await.unwrap(), number(22).await.unwrap()), (1, 1, 2));
    let by_number = |of: u8, number: i64| store.read(move |tx| builds::by_number(tx, scope, id(of), number));
    assert_eq!(by_number(9, 2).await.unwrap().unwrap().id, id(22));
    assert!(by_number(8, 2).await.unwrap().is_none());
    let whole: BuildId = id(22);
    let whole = whole.to_string();
    for part in [&whole[..], &whole[whole.len() - 8..]] {
        let part = part.to_owned();
        let found = store.read(move |tx| builds::by_part(tx, scope, &part, 2)).await.unwrap();
        assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [id(22)]);
    }
    let first = whole[..4].to_owned();
    let several = store.read(move |tx| builds::by_part(tx, scope, &first, 2)).await.unwrap();
    assert_eq!(several.len(), 2, "a part that several builds have is nobody's");
}

async fn what_cannot_be_followed_up_is_due_again_until_it_is_given_up(on: On) {
    let (store, scope, _folder) = store(on).await;
    let row = move |message: &str, about: &str| Deferred {
        consumer: "triggers".into(),
        message: message.into(),
        account: Some(scope.account()),
        about: about.into(),
        topic: "facts.repository".into(),
        body: "{}".into(),
        attempts: 1,
        next_ms: 10,
        problem: "away".into(),
        created_ms: 1,
        dead_ms: None,
    };
    let done = store.write(move |tx| {
        for new in [row("1", "a/gh"), row("1", "a/gh"), row("2", "a/gh"), row("3", "a/lab")] {
            deferred::put(tx, &new)?;
        }
        let due = |tx: &mut Tx<'_>, at_ms: i64| -> Result<Vec<String>, StoreError> {
            Ok(deferred::due(tx, "triggers", at_ms, 10)?.into_iter().map(|one| one.message).collect())
        };
        assert!(due(tx, 9)?.is_empty());
        assert_eq!(due(tx, 10)?.len(), 3);
        deferred::failed(tx, &row("1", "a/gh"), "still away", 50, None)?;
        deferred::postpone(tx, "a/gh", 10, 60)?;
        assert_eq!(due(tx, 10)?, ["3"], "who waits for the same one waits with it");
        assert_eq!(due(tx, 60)?.len(), 3);
        deferred::done(tx, "triggers", "3")?;
        deferred::failed(tx, &row("2", "a/gh"), "gone", 70, Some(65))?;
        assert_eq!(due(tx, 100)?, ["1"]);
        assert_eq!(deferred::counts(tx)?, (1, 1));
        let listed = deferred::list(tx, 10)?;
        assert_eq!((listed[0].message.as_str(), listed[0].problem.as_str()), ("2", "gone"));
        assert!(deferred::again(tx, "triggers", "2", 90)? && !deferred::again(tx, "triggers", "9", 90)?);
        assert_eq!((deferred::counts(tx)?, due(tx, 90)?.len()), ((2, 0), 2));
        Ok(())
    });
    done.await.unwrap();
}

/// Also one that no statement holds whole: 32 of them go together, then 8, then the rest one by one.
async fn a_page_of_entities_is_asked_for_and_put_together(on: On) {
    let (store, scope, _folder) = store(on).await;
    const COUNT: usize = 32 + 8 + 3;
    let page = |sequence: i64, from: usize| {
        store.write(move |tx| {
            let names: Vec<_> = (from..from + COUNT).map(|number| format!("app{number:03}")).collect();
            let of = |name| entities::Name { kind: "example.com/Thing", namespace: "ns", name };
            let named: Vec<_> = names.iter().map(|name| of(name)).collect();
            let known = entities::known(tx, scope, "one", &named)?;
            let rows: Vec<_> = named
                .iter()
                .map(|of| {
                    let (uid, told) = (of.name, if known.contains_key(of) { "again" } else { "new" });
                    let (state, body) = ("{}", "{}");
                    let entity = entities::Reported {
                        uid,
                        resource_version: "1",
                        sequence,
                        state,
                        summary: "",
                        body,
                        told,
                    };
                    (*of, entity)
                })
                .collect();
            entities::put(tx, scope, "one", &rows)?;
            let after = entities::known(tx, scope, "one", &named)?;
            assert_eq!(after.len(), COUNT);
            for (name, one) in &after {
                assert_eq!((one.uid.as_str(), one.sequence, one.gone), (name.name, sequence, false));
            }
            let again = after.values().filter(|one| one.told == "again").count();
            Ok((known.len(), again, entities::count(tx, scope, "one")?))
        })
    };
    let count = i64::try_from(COUNT).unwrap();
    assert_eq!(page(1, 0).await.unwrap(), (0, 0, count));
    assert_eq!(page(2, COUNT / 2).await.unwrap(), (COUNT - COUNT / 2, COUNT - COUNT / 2, count + count / 2));
}
