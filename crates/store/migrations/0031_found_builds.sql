-- Builds are found by the first letters of their commit's id without reading what each was ordered with.
ALTER TABLE builds ADD COLUMN revision TEXT NOT NULL DEFAULT '';
UPDATE builds SET revision = lower(substr(order_body, instr(order_body, '"sha":"') + 7,
    instr(substr(order_body, instr(order_body, '"sha":"') + 7, 65) || '"', '"') - 1))
    WHERE order_body LIKE '%"sha":"%';
CREATE INDEX builds_by_revision ON builds (account, revision, id) WHERE revision <> '';
-- A list of one status is read and counted without looking at the builds of all others.
CREATE INDEX builds_by_status ON builds (account, status, id);
