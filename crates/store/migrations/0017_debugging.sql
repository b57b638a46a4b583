-- Since when a build that is pending has counted as delayed: no runner had a place for it.
ALTER TABLE builds ADD COLUMN delayed_ms BIGINT;
CREATE INDEX builds_waiting ON builds (created_ms, id) WHERE status = 'pending';

-- What people ask of builds that they debug: a shell in a paused step, the step to go on, more breakpoints. The runner of
-- the build hears it with its next call. Bytes of shells are nowhere in this database.
CREATE TABLE debug_orders (
    id TEXT PRIMARY KEY, build TEXT NOT NULL REFERENCES builds(id) ON DELETE CASCADE, action TEXT NOT NULL,
    step TEXT NOT NULL, phase TEXT NOT NULL, by_id TEXT NOT NULL, by_name TEXT NOT NULL, body TEXT NOT NULL,
    at_ms BIGINT NOT NULL
);
CREATE INDEX debug_orders_of_build ON debug_orders (build, at_ms);
