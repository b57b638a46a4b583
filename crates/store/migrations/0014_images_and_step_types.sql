-- What builds have made, and the definitions of steps that an account has of its own.
CREATE TABLE images (
    account TEXT NOT NULL REFERENCES accounts(id), image TEXT NOT NULL, name TEXT NOT NULL, tag TEXT NOT NULL,
    registry TEXT NOT NULL, digest TEXT NOT NULL, build TEXT NOT NULL, pipeline TEXT NOT NULL, branch TEXT NOT NULL,
    revision TEXT NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY (account, image, name, tag)
);
CREATE INDEX images_newest ON images (account, at_ms);
CREATE INDEX images_of_build ON images (account, build);
CREATE TABLE step_types (
    account TEXT NOT NULL REFERENCES accounts(id), name TEXT NOT NULL, version TEXT NOT NULL, body TEXT NOT NULL,
    digest TEXT NOT NULL, created_ms BIGINT NOT NULL, updated_ms BIGINT NOT NULL, PRIMARY KEY (account, name, version)
);
