-- Several processes of one runtime each report some of its objects completely: by process, the number of its complete report, the pages
-- that have come and the parts that it is about, as JSON. What stands beside it is about all of them.
ALTER TABLE complete_reports ADD COLUMN shares TEXT NOT NULL DEFAULT '{}';
