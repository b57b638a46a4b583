-- The first build that waits of each pipeline is one step in an index, so that the thousands behind a frozen one are not read.
DROP INDEX builds_queue_of;
DROP INDEX builds_queue;
CREATE INDEX builds_queue_of ON builds (account, pipeline, queue_rank, created_ms, id) WHERE status = 'pending';
-- Which pipelines go by the clock is asked every two seconds, and which wait for others at the end of every build.
ALTER TABLE pipelines ADD COLUMN clocked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pipelines ADD COLUMN chained INTEGER NOT NULL DEFAULT 0;
UPDATE pipelines SET clocked = 1 WHERE body LIKE '%"cronTriggers"%';
UPDATE pipelines SET chained = 1 WHERE body LIKE '%"pipelineTriggers"%';
CREATE INDEX pipelines_clocked ON pipelines (id) WHERE clocked = 1;
CREATE INDEX pipelines_chained ON pipelines (account, name) WHERE chained = 1;
-- What accounts do not keep for ever. Builds are deleted now, so how many are left is counted too.
ALTER TABLE build_counts ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE builds ADD COLUMN logs_forgotten_ms INTEGER;
CREATE INDEX builds_ended ON builds (account, created_ms) WHERE status IN ('success', 'error', 'terminated');
CREATE INDEX builds_logged ON builds (account, created_ms)
    WHERE status IN ('success', 'error', 'terminated') AND logs_forgotten_ms IS NULL;
CREATE INDEX outgoing_done ON outgoing (done_ms) WHERE done_ms IS NOT NULL;
