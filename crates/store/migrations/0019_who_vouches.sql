-- Who vouches for whom: an identity belongs to one provider of one account, a session knows which provider began it,
-- and an account's provider vouches for addresses of the domains that the platform verified for that account.
CREATE TABLE identities (
    client TEXT NOT NULL REFERENCES sso_clients(id) ON DELETE CASCADE, issuer TEXT NOT NULL, subject TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE, created_ms BIGINT NOT NULL,
    PRIMARY KEY (client, issuer, subject)
);
CREATE INDEX identities_user ON identities (user_id);
-- Identities of before go to the providers with that issuer in accounts that the person is a member of.
INSERT INTO identities (client, issuer, subject, user_id, created_ms)
    SELECT c.id, e.issuer, e.subject, e.user_id, e.created_ms FROM external_identities e
    JOIN sso_clients c ON replace(c.settings, '"issuer":"' || e.issuer || '"', '') <> c.settings
    JOIN memberships m ON m.account = c.account AND m.user_id = e.user_id;
DROP TABLE external_identities;

ALTER TABLE sessions ADD COLUMN client TEXT REFERENCES sso_clients(id) ON DELETE CASCADE;
-- Sessions through a provider did not say which one it was: those people sign in once more.
DELETE FROM sessions WHERE method <> 'password';
DELETE FROM sso_logins;
ALTER TABLE sso_logins ADD COLUMN link_session TEXT;
ALTER TABLE sso_logins ADD COLUMN invitation TEXT;

-- A key has its owner's rights over the platform only if the session that made it had them. Keys of before keep theirs.
ALTER TABLE api_keys ADD COLUMN platform BIGINT NOT NULL DEFAULT 1;

CREATE TABLE account_domains (
    domain TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts(id), verified_by TEXT NOT NULL, created_ms BIGINT NOT NULL
);
CREATE INDEX account_domains_account ON account_domains (account);

-- On everybody's sign-in page: for an administrator of the platform to say. Those of the first account stay there.
ALTER TABLE sso_clients ADD COLUMN front_page BIGINT NOT NULL DEFAULT 0;
UPDATE sso_clients SET front_page = 1 WHERE account IN (SELECT id FROM accounts ORDER BY created_ms, id LIMIT 1);

-- Browsers that somebody has signed in with before: strangers who guess at an address do not lock these out.
CREATE TABLE known_browsers (
    token_hash TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE, seen_ms BIGINT NOT NULL
);
CREATE INDEX known_browsers_user ON known_browsers (user_id);
