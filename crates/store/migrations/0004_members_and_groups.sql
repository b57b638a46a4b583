-- A member may be suspended in one account and stay what they are in the others.
ALTER TABLE memberships ADD COLUMN status TEXT NOT NULL DEFAULT 'active';
-- Which group of which identity provider fills a team. Names of groups become shorter names of teams, so that two groups
-- could share one: the team belongs to the first, and the other does not come in by its name.
ALTER TABLE teams ADD COLUMN sso_client TEXT;
ALTER TABLE teams ADD COLUMN sso_group TEXT;
