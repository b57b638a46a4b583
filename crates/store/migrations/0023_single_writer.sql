-- The first build that waits of each pipeline is one step in an index, so that the thousands behind a frozen one are not read.
DROP INDEX builds_queue_of;
DROP INDEX builds_queue;
CREATE INDEX builds_queue_of ON builds (account, pipeline, queue_rank, created_ms, id) WHERE status = 'pending';
