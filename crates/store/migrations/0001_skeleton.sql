CREATE TABLE accounts (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_ms INTEGER NOT NULL);
CREATE TABLE users (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL, password_hash TEXT NOT NULL, role TEXT NOT NULL, created_ms INTEGER NOT NULL
);
CREATE TABLE sessions (
    token_hash TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    csrf TEXT NOT NULL, created_ms INTEGER NOT NULL, last_seen_ms INTEGER NOT NULL
);
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL,
    prefix TEXT NOT NULL, secret_hash TEXT NOT NULL, subject_kind TEXT NOT NULL, subject TEXT NOT NULL,
    scopes TEXT NOT NULL, created_ms INTEGER NOT NULL, last_used_ms INTEGER
);
CREATE INDEX api_keys_subject ON api_keys (subject_kind, subject);

CREATE TABLE repos (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL,
    default_branch TEXT NOT NULL, created_ms INTEGER NOT NULL, UNIQUE (account, name)
);
-- What the platform has taken note of; a push is news when Git disagrees with this table.
CREATE TABLE repo_refs (
    repo TEXT NOT NULL REFERENCES repos(id) ON DELETE CASCADE, name TEXT NOT NULL, sha TEXT NOT NULL,
    author TEXT NOT NULL, message TEXT NOT NULL, pushed_ms INTEGER NOT NULL, PRIMARY KEY (repo, name)
);

CREATE TABLE facts (seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, account TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE cursors (consumer TEXT PRIMARY KEY, seq INTEGER NOT NULL);

CREATE TABLE pipelines (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, body TEXT NOT NULL,
    revision INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, UNIQUE (account, name)
);
CREATE TABLE builds (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), pipeline TEXT NOT NULL,
    pipeline_name TEXT NOT NULL, status TEXT NOT NULL, created_ms INTEGER NOT NULL, started_ms INTEGER,
    finished_ms INTEGER, order_body TEXT NOT NULL, steps TEXT NOT NULL, message TEXT, runner TEXT, executor TEXT,
    epoch INTEGER NOT NULL DEFAULT 0, lease_until_ms INTEGER, terminate INTEGER NOT NULL DEFAULT 0,
    report_revision INTEGER NOT NULL DEFAULT -1,
    -- One build for one cause: the fact and trigger that made it, or the caller's request id.
    cause TEXT NOT NULL, UNIQUE (account, cause)
);
CREATE INDEX builds_waiting ON builds (account, created_ms) WHERE status IN ('pending', 'elected', 'running', 'terminating');
CREATE INDEX builds_by_pipeline ON builds (account, pipeline, id);
CREATE TABLE log_chunks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, build TEXT NOT NULL REFERENCES builds(id) ON DELETE CASCADE,
    step TEXT NOT NULL, start INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE INDEX log_chunks_build ON log_chunks (build, seq);
CREATE TABLE step_logs (
    build TEXT NOT NULL REFERENCES builds(id) ON DELETE CASCADE, step TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (build, step)
);

CREATE TABLE runners (
    account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, version TEXT NOT NULL, executor TEXT NOT NULL,
    last_seen_ms INTEGER NOT NULL, PRIMARY KEY (account, name)
);
CREATE TABLE runtimes (
    account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, version TEXT NOT NULL, cluster TEXT NOT NULL,
    ingress_url TEXT NOT NULL, last_seen_ms INTEGER NOT NULL, PRIMARY KEY (account, name)
);
CREATE TABLE applications (
    account TEXT NOT NULL REFERENCES accounts(id), runtime TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (account, runtime, namespace, name)
);
