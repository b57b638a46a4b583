-- Calls that a runner makes inside of its own network, for an integration that the platform does not dial (`behindFirewall`). What is asked
-- and what was answered are sealed. A row lives for as long as somebody waits for it.
CREATE TABLE errands (
    id TEXT PRIMARY KEY, account TEXT NOT NULL, request TEXT NOT NULL, runner TEXT, answer TEXT, until_ms BIGINT NOT NULL
);
CREATE INDEX errands_open ON errands (account, until_ms) WHERE runner IS NULL;
