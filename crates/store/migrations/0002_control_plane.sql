-- Identity, access, audit, shared configuration. Only what SQLite and PostgreSQL share: TEXT, BIGINT, 0 and 1 for no and yes.
ALTER TABLE accounts ADD COLUMN status TEXT NOT NULL DEFAULT 'active';
ALTER TABLE accounts ADD COLUMN status_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
ALTER TABLE accounts ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
-- A name that was given up is not given to somebody else for a while: links and habits still point at it.
CREATE TABLE quarantined_names (
    kind TEXT NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL, until_ms BIGINT NOT NULL, PRIMARY KEY (kind, scope, name)
);

CREATE TABLE memberships (
    account TEXT NOT NULL REFERENCES accounts(id), user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    role TEXT NOT NULL, created_ms BIGINT NOT NULL, PRIMARY KEY (account, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id);
INSERT INTO memberships (account, user_id, role, created_ms) SELECT account, id, role, created_ms FROM users;
ALTER TABLE users ADD COLUMN platform_admin BIGINT NOT NULL DEFAULT 0;
UPDATE users SET platform_admin = 1 WHERE role = 'Admin';
ALTER TABLE users DROP COLUMN role;
-- The account that a new session and a key of the person's start in.
ALTER TABLE users RENAME COLUMN account TO active_account;
ALTER TABLE users ADD COLUMN status TEXT NOT NULL DEFAULT 'active';
ALTER TABLE users ADD COLUMN last_login_ms BIGINT;
-- Who one is elsewhere. A person is found by issuer and subject, never by e-mail.
CREATE TABLE external_identities (
    issuer TEXT NOT NULL, subject TEXT NOT NULL, user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    created_ms BIGINT NOT NULL, PRIMARY KEY (issuer, subject)
);
CREATE INDEX external_identities_user ON external_identities (user_id);

-- Sessions of before carry no account: everybody signs in once more.
DELETE FROM sessions;
ALTER TABLE sessions ADD COLUMN id TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN authenticated_ms BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN method TEXT NOT NULL DEFAULT 'password';
CREATE INDEX sessions_user ON sessions (user_id);
-- Survives a restart, so that a restart gives no fresh attempts.
CREATE TABLE login_failures (subject TEXT PRIMARY KEY, failures BIGINT NOT NULL, last_ms BIGINT NOT NULL);

CREATE TABLE invitations (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), email TEXT NOT NULL, role TEXT NOT NULL,
    teams TEXT NOT NULL, token_hash TEXT NOT NULL, invited_by TEXT NOT NULL, created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL, UNIQUE (account, email)
);
CREATE INDEX invitations_token ON invitations (token_hash);
CREATE TABLE teams (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, kind TEXT NOT NULL,
    source TEXT NOT NULL, tags TEXT NOT NULL, created_ms BIGINT NOT NULL, UNIQUE (account, name)
);
CREATE TABLE team_members (
    team TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE, member TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (team, member)
);
CREATE INDEX team_members_member ON team_members (member);
CREATE TABLE service_accounts (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, role TEXT NOT NULL,
    enabled BIGINT NOT NULL, created_ms BIGINT NOT NULL, UNIQUE (account, name)
);
CREATE INDEX api_keys_account ON api_keys (account);

CREATE TABLE rules (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), kind TEXT NOT NULL, teams TEXT NOT NULL,
    actions TEXT NOT NULL, related TEXT, tags TEXT NOT NULL, tag_match TEXT NOT NULL, attributes TEXT NOT NULL,
    created_ms BIGINT NOT NULL
);
CREATE INDEX rules_account ON rules (account, kind);

-- One chain for each account, and one called `platform`. Rows are appended, never changed.
CREATE TABLE audit (
    chain TEXT NOT NULL, seq BIGINT NOT NULL, at_ms BIGINT NOT NULL, actor_kind TEXT NOT NULL, actor TEXT NOT NULL,
    actor_name TEXT NOT NULL, address TEXT NOT NULL, action TEXT NOT NULL, entity TEXT NOT NULL, entity_id TEXT NOT NULL,
    entity_name TEXT NOT NULL, outcome TEXT NOT NULL, status BIGINT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    request_id TEXT NOT NULL, detail TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (chain, seq)
);
CREATE INDEX audit_by_time ON audit (chain, at_ms);
CREATE INDEX audit_by_entity ON audit (chain, entity, entity_id);
CREATE TABLE audit_heads (chain TEXT PRIMARY KEY, seq BIGINT NOT NULL, hash TEXT NOT NULL);

-- The key that an account's secrets are sealed with, itself sealed under a master key that is not in the database.
CREATE TABLE data_keys (
    id TEXT PRIMARY KEY, master TEXT NOT NULL, wrapped TEXT NOT NULL, created_ms BIGINT NOT NULL
);
CREATE TABLE contexts (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, type TEXT NOT NULL,
    tags TEXT NOT NULL, spec TEXT NOT NULL, sealed TEXT, owner TEXT NOT NULL, revision BIGINT NOT NULL,
    created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL, UNIQUE (account, name)
);

CREATE TABLE sso_clients (
    id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    settings TEXT NOT NULL, secret TEXT, enabled BIGINT NOT NULL, created_ms BIGINT NOT NULL
);
CREATE TABLE sso_logins (
    state_hash TEXT PRIMARY KEY, client TEXT NOT NULL, nonce TEXT NOT NULL, verifier TEXT NOT NULL, return_to TEXT NOT NULL,
    browser_hash TEXT NOT NULL, link_user TEXT, created_ms BIGINT NOT NULL
);
