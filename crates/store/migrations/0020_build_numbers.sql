-- A number within its pipeline, which people can say: `shop/web #17`. The last one given is kept beside the builds, so that
-- a number is not given twice should builds ever be deleted.
CREATE TABLE build_numbers (
    account TEXT NOT NULL REFERENCES accounts(id), pipeline TEXT NOT NULL, last BIGINT NOT NULL,
    PRIMARY KEY (account, pipeline)
);
ALTER TABLE builds ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
UPDATE builds SET number = numbered.number FROM
    (SELECT id, row_number() OVER (PARTITION BY account, pipeline ORDER BY id) AS number FROM builds) AS numbered
    WHERE builds.id = numbered.id;
INSERT INTO build_numbers (account, pipeline, last) SELECT account, pipeline, max(number) FROM builds GROUP BY account, pipeline;
CREATE UNIQUE INDEX builds_numbered ON builds (account, pipeline, number);
-- The end of an id, which pages show.
CREATE INDEX builds_short ON builds (account, substr(id, 17));
