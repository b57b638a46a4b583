//! What PostgreSQL itself can do of the same writes: groups of them as one text, a `BEGIN` before and a `COMMIT` behind, over one
//! connection, with nobody else there. No server, no rights, no questions: nothing of ours can be faster than this.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Context;
use postgres::{Client, NoTls};

/// Tables that a write touches, as they are with their indexes, and without what follows up the rows of the real ones.
const TABLES: [(&str, &str); 9] = [
    ("pipeline_manager", "builds"),
    ("pipeline_manager", "build_numbers"),
    ("pipeline_manager", "build_counts"),
    ("pipeline_manager", "hooks"),
    ("pipeline_manager", "hook_refs"),
    ("outbox", "facts"),
    ("outbox", "inbox"),
    ("audit_manager", "audit"),
    ("audit_manager", "audit_heads"),
];

pub(crate) struct Bare {
    client: Client,
    next: u64,
}

/// Which write.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Run,
    Webhook { bytes: usize },
}

impl Bare {
    pub(crate) fn connect(url: &str) -> anyhow::Result<Self> {
        let mut client = Client::connect(url, NoTls).context("the bare connection")?;
        client.batch_execute("DROP SCHEMA IF EXISTS bare CASCADE; CREATE SCHEMA bare")?;
        for (schema, table) in TABLES {
            client
                .batch_execute(&format!("CREATE TABLE bare.{table} (LIKE {schema}.{table} INCLUDING ALL)"))?;
        }
        client.batch_execute("SET search_path = bare; ANALYZE")?;
        Ok(Self { client, next: 0 })
    }

    /// How many a second, `count` of them in groups of so many.
    pub(crate) fn per_second(&mut self, kind: Kind, group: usize, count: usize) -> anyhow::Result<f64> {
        let began = Instant::now();
        let mut done = 0;
        while done < count {
            let mut text = String::from("BEGIN; SELECT pg_advisory_xact_lock(7, 7);");
            for _ in 0..group {
                self.next += 1;
                one(&mut text, kind, self.next)?;
            }
            text += "COMMIT";
            self.client.batch_execute(&text)?;
            done += group;
        }
        Ok(done as f64 / began.elapsed().as_secs_f64())
    }
}

fn one(text: &mut String, kind: Kind, number: u64) -> std::fmt::Result {
    let id = format!("{number:024x}");
    match kind {
        Kind::Run => write!(
            text,
            "INSERT INTO builds (id, account, pipeline, pipeline_name, status, created_ms, order_body, steps, cause, number) \
             SELECT '{id}', 'a', 'p', 'bench/bare', 'pending', {number}, '{{\"source\":{{}},\"variables\":[]}}', '[]', 'run:{id}', \
             1 + coalesce((SELECT last FROM build_numbers WHERE account = 'a' AND pipeline = 'p'), 0); \
             INSERT INTO build_numbers (account, pipeline, last) VALUES ('a', 'p', 1) \
             ON CONFLICT (account, pipeline) DO UPDATE SET last = build_numbers.last + 1; \
             INSERT INTO build_counts (account, day, total) VALUES ('a', 1, 1) \
             ON CONFLICT (account, day) DO UPDATE SET total = build_counts.total + 1; \
             INSERT INTO facts (at_ms, account, body) VALUES ({number}, 'a', '{{\"kind\":\"buildCreated\",\"build\":\"{id}\"}}'); \
             INSERT INTO audit (chain, seq, at_ms, actor_kind, actor, actor_name, address, action, entity, entity_id, entity_name, \
             outcome, status, method, path, request_id, detail, hash) VALUES ('a', {number}, 1, 'user', 'u', 'admin', '127.0.0.1', \
             'run', 'pipeline', 'p', 'bench/bare', 'allowed', 200, 'POST', '/api/pipelines/run', '{id}', '{{}}', '{id}{id}'); \
             INSERT INTO audit_heads (chain, seq, hash) VALUES ('a', {number}, '{id}{id}') \
             ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash; "
        ),
        Kind::Webhook { bytes } => write!(
            text,
            "INSERT INTO inbox (consumer, message, at_ms) VALUES ('hook', '{id}', {number}); \
             UPDATE hooks SET heard_ms = {number} WHERE id = 'h'; \
             INSERT INTO hook_refs (hook, name, sha) VALUES ('h', 'main', '{id}') \
             ON CONFLICT (hook, name) DO UPDATE SET sha = excluded.sha; \
             INSERT INTO facts (at_ms, account, body) VALUES ({number}, 'a', '{{\"message\":\"{}\"}}'); ",
            "x".repeat(bytes)
        ),
    }
}
