-- Builds that an agent of the published runner was given: which attempt, in which namespace, and whether the runner in
-- its pod has come and gone. `over_ms`: what was made for it is asked to be deleted, and nothing more happens.
CREATE TABLE agent_builds (
    build TEXT PRIMARY KEY REFERENCES builds(id) ON DELETE CASCADE, account TEXT NOT NULL REFERENCES accounts(id),
    agent TEXT NOT NULL REFERENCES agents(id) ON DELETE CASCADE, runtime TEXT NOT NULL, namespace TEXT NOT NULL,
    attempt BIGINT NOT NULL, arrived_ms BIGINT, ended_ms BIGINT, left_ms BIGINT, over_ms BIGINT
);
CREATE INDEX agent_builds_open ON agent_builds (agent, build) WHERE over_ms IS NULL;
-- Which attempt of its build a task is for: what is said about an earlier one changes nothing.
ALTER TABLE agent_tasks ADD COLUMN attempt BIGINT NOT NULL DEFAULT 0;
-- The name of the pod or claim, for people.
ALTER TABLE agent_tasks ADD COLUMN object TEXT NOT NULL DEFAULT '';
CREATE INDEX agent_tasks_of_build ON agent_tasks (build, created_ms);

-- Runtime environments as the published installer describes them. The newest version counts; the others are its history.
CREATE TABLE runtime_environments (
    account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, version BIGINT NOT NULL, body TEXT NOT NULL,
    description TEXT NOT NULL, changed_by TEXT NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY (account, name, version)
);
-- For pipelines that name none.
CREATE TABLE default_runtimes (
    account TEXT PRIMARY KEY REFERENCES accounts(id), name TEXT NOT NULL
);
-- The authority of an account that signs the certificates of its Docker daemons. Its key is sealed.
CREATE TABLE authorities (
    account TEXT PRIMARY KEY REFERENCES accounts(id), certificate TEXT NOT NULL, sealed_key TEXT NOT NULL, created_ms BIGINT NOT NULL
);
