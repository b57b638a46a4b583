-- How each process of a runtime said that it fares, and when: JSON by the name of the process.
ALTER TABLE runtimes ADD COLUMN health TEXT NOT NULL DEFAULT '{}';
