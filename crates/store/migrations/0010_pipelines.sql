-- Pipelines as a service: projects, revisions, the order of the queue, approvals, triggers from outside, reports to outside.
CREATE TABLE projects (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, tags TEXT NOT NULL,
    variables TEXT NOT NULL, contexts TEXT NOT NULL, created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL,
    UNIQUE (account, name)
);
CREATE TABLE pipeline_revisions (
    pipeline TEXT NOT NULL REFERENCES pipelines(id) ON DELETE CASCADE, revision BIGINT NOT NULL, name TEXT NOT NULL,
    body TEXT NOT NULL, author TEXT NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY (pipeline, revision)
);

-- The negated priority: an index in ascending order is the queue.
ALTER TABLE builds ADD COLUMN queue_rank BIGINT NOT NULL DEFAULT 0;
ALTER TABLE builds ADD COLUMN trigger_name TEXT NOT NULL DEFAULT '';
ALTER TABLE builds ADD COLUMN branch TEXT NOT NULL DEFAULT '';
CREATE INDEX builds_queue ON builds (account, queue_rank, created_ms, id)
    WHERE status IN ('pending', 'elected', 'running', 'terminating', 'pending-approval');
CREATE INDEX builds_active ON builds (account, pipeline, status)
    WHERE status IN ('pending', 'elected', 'running', 'terminating', 'pending-approval');
-- One answer for each step that asks: the first.
CREATE TABLE approvals (
    build TEXT NOT NULL REFERENCES builds(id) ON DELETE CASCADE, step TEXT NOT NULL, approved BIGINT NOT NULL,
    by_kind TEXT NOT NULL, by_id TEXT NOT NULL, by_name TEXT NOT NULL, reason TEXT, at_ms BIGINT NOT NULL,
    PRIMARY KEY (build, step)
);
CREATE TABLE annotations (
    account TEXT NOT NULL REFERENCES accounts(id), entity_kind TEXT NOT NULL, entity TEXT NOT NULL, name TEXT NOT NULL,
    value TEXT NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY (account, entity_kind, entity, name)
);

-- Where a Git provider announces what happened to one repository. The secret is this hook's own, sealed.
CREATE TABLE hooks (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), context TEXT NOT NULL, repo TEXT NOT NULL,
    secret TEXT NOT NULL, remote TEXT, problem TEXT, next_ms BIGINT NOT NULL DEFAULT 0, polled_ms BIGINT NOT NULL DEFAULT 0,
    heard_ms BIGINT, created_ms BIGINT NOT NULL, UNIQUE (account, context, repo)
);
-- What has been taken note of; a provider whose branch is elsewhere has news that did not arrive.
CREATE TABLE hook_refs (
    hook TEXT NOT NULL REFERENCES hooks(id) ON DELETE CASCADE, name TEXT NOT NULL, sha TEXT NOT NULL, PRIMARY KEY (hook, name)
);
-- The last tick that was followed up, for each trigger that goes by the clock.
CREATE TABLE cron_ticks (
    pipeline TEXT NOT NULL REFERENCES pipelines(id) ON DELETE CASCADE, name TEXT NOT NULL, tick_ms BIGINT NOT NULL,
    PRIMARY KEY (pipeline, name)
);
-- Events of registries and their like, and which pipelines wait for them.
CREATE TABLE trigger_events (
    account TEXT NOT NULL REFERENCES accounts(id), uri TEXT NOT NULL, kind TEXT NOT NULL, secret TEXT NOT NULL,
    description TEXT NOT NULL, created_ms BIGINT NOT NULL, PRIMARY KEY (account, uri)
);
CREATE TABLE event_triggers (
    account TEXT NOT NULL REFERENCES accounts(id), uri TEXT NOT NULL, pipeline TEXT NOT NULL REFERENCES pipelines(id) ON DELETE CASCADE,
    filters TEXT NOT NULL, PRIMARY KEY (account, uri, pipeline)
);
-- What others are told, until they have it: commit statuses, messages.
CREATE TABLE outgoing (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), kind TEXT NOT NULL, target TEXT NOT NULL,
    build TEXT NOT NULL, body TEXT NOT NULL, attempts BIGINT NOT NULL, next_ms BIGINT NOT NULL, problem TEXT,
    created_ms BIGINT NOT NULL, done_ms BIGINT, UNIQUE (account, kind, target, build, body)
);
CREATE INDEX outgoing_due ON outgoing (next_ms) WHERE done_ms IS NULL;

-- Agents of the published runner: they poll for tasks, and a task is kept until its status arrives.
CREATE TABLE agents (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, runtimes TEXT NOT NULL,
    message TEXT NOT NULL, reported_ms BIGINT, created_ms BIGINT NOT NULL, UNIQUE (account, name)
);
CREATE TABLE agent_tasks (
    id TEXT PRIMARY KEY, agent TEXT NOT NULL REFERENCES agents(id) ON DELETE CASCADE, kind TEXT NOT NULL, runtime TEXT NOT NULL,
    build TEXT NOT NULL, spec TEXT NOT NULL, status_revision BIGINT NOT NULL, status TEXT, problem TEXT, created_ms BIGINT NOT NULL,
    done_ms BIGINT
);
CREATE INDEX agent_tasks_open ON agent_tasks (agent, created_ms) WHERE done_ms IS NULL;
