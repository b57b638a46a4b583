-- What runtimes report, of any kind. `sequence` is the number of the report that a row is from: a lower one does not change
-- it. A row that was removed stays for a while without its body, so that a late report does not bring it back and `told`, what
-- facts were made of, is not forgotten.
CREATE TABLE entities (
    account TEXT NOT NULL REFERENCES accounts(id), runtime TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL,
    name TEXT NOT NULL, uid TEXT NOT NULL, resource_version TEXT NOT NULL, sequence INTEGER NOT NULL, state TEXT NOT NULL,
    summary TEXT NOT NULL, body TEXT NOT NULL, told TEXT NOT NULL, gone_ms INTEGER,
    PRIMARY KEY (account, runtime, kind, namespace, name)
);
INSERT INTO entities (account, runtime, kind, namespace, name, uid, resource_version, sequence, state, summary, body, told)
    SELECT account, runtime, 'argoproj.io/Application', namespace, name, '', '', 0, '', summary, body, '' FROM applications;
DROP TABLE applications;
CREATE INDEX entities_listed ON entities (account, kind, name, namespace, runtime) WHERE gone_ms IS NULL;
CREATE INDEX entities_gone ON entities (account, runtime, gone_ms) WHERE gone_ms IS NOT NULL;
-- The complete report that a runtime sends or last sent: the pages that have come, and the number of the last one.
CREATE TABLE complete_reports (
    account TEXT NOT NULL REFERENCES accounts(id), runtime TEXT NOT NULL, sequence INTEGER NOT NULL, pages TEXT NOT NULL,
    last_page INTEGER, PRIMARY KEY (account, runtime)
);
ALTER TABLE runtimes ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
