-- Messages that a consumer has handled: one that comes again changes nothing.
CREATE TABLE inbox (consumer TEXT NOT NULL, message TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (consumer, message));
CREATE INDEX inbox_age ON inbox (at_ms);
-- Who leads some work now. A taker raises the epoch, and whoever holds an older one changes nothing.
CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, epoch INTEGER NOT NULL, until_ms INTEGER NOT NULL);
-- Facts go on to the bus from where their only consumer so far had come.
INSERT INTO cursors (consumer, seq) SELECT 'relay', seq FROM cursors WHERE consumer = 'triggers';
