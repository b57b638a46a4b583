-- Messages of the bus that could not be followed up yet, because somebody else was away: tried again with growing pauses,
-- without holding up those behind them. `dead_ms`: given up, until an administrator has it tried again.
CREATE TABLE deferred (
    consumer TEXT NOT NULL, message TEXT NOT NULL, account TEXT, about TEXT NOT NULL, topic TEXT NOT NULL, body TEXT NOT NULL,
    attempts BIGINT NOT NULL, next_ms BIGINT NOT NULL, problem TEXT NOT NULL, created_ms BIGINT NOT NULL, dead_ms BIGINT,
    PRIMARY KEY (consumer, message)
);
CREATE INDEX deferred_due ON deferred (next_ms) WHERE dead_ms IS NULL;
