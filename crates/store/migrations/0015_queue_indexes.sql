-- SQLite uses a partial index only for a query that repeats its condition word by word. The older ones were never used:
-- taking a build read every build of the account.
DROP INDEX builds_waiting;
DROP INDEX builds_queue;
DROP INDEX builds_active;
CREATE INDEX builds_queue ON builds (account, queue_rank, created_ms, id) WHERE status = 'pending';
CREATE INDEX builds_queue_of ON builds (account, pipeline, id) WHERE status = 'pending';
CREATE INDEX builds_taken ON builds (account, queue_rank, created_ms, id)
    WHERE status IN ('elected', 'running', 'terminating', 'pending-approval');
CREATE INDEX builds_taken_of ON builds (account, pipeline, id)
    WHERE status IN ('elected', 'running', 'terminating', 'pending-approval');
-- Lists show the newest first, a page at a time.
CREATE INDEX builds_newest ON builds (account, id);
