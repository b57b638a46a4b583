-- What lists show of an Application, apart from its tree of resources: a page of ten thousand of them must not read hundreds of
-- megabytes. Empty until the runtime reports again; readers then take the body.
ALTER TABLE applications ADD COLUMN summary TEXT NOT NULL DEFAULT '';
