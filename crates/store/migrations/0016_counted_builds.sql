-- How many builds an account made on each day (of UTC, since 1970): what its pages and limits ask for all the time, and
-- what would take longer to count each day. Builds are never deleted.
CREATE TABLE build_counts (
    account TEXT NOT NULL REFERENCES accounts(id), day BIGINT NOT NULL, total BIGINT NOT NULL,
    PRIMARY KEY (account, day)
);
INSERT INTO build_counts (account, day, total)
    SELECT account, created_ms / 86400000, count(*) FROM builds GROUP BY account, created_ms / 86400000;
