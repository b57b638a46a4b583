-- How many builds an account has had, for the page that shows the newest of them; they are never deleted.
CREATE TABLE build_counts (
    account TEXT PRIMARY KEY REFERENCES accounts(id), total BIGINT NOT NULL
);
INSERT INTO build_counts (account, total) SELECT account, count(*) FROM builds GROUP BY account;
-- What an account has used since the month began.
CREATE INDEX builds_by_time ON builds (account, created_ms);
