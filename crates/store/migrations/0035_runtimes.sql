-- A runtime is registered before it says anything. `address` is where an administrator says that it is reached; empty: through its
-- tunnel. `allowed` are the networks from which callers may use the tunnel, as JSON; empty: all.
ALTER TABLE runtimes ADD COLUMN created_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runtimes ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE runtimes ADD COLUMN allowed TEXT NOT NULL DEFAULT '[]';
