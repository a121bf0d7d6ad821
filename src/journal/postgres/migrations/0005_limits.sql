-- What one token may use up. Null: the server's default.
alter table umbra.tokens
  add column rate_limit double precision,
  add column max_unfinished_jobs bigint,
  add column max_body_bytes bigint;

-- Which token, or which JWT's subject, submitted the job; null: neither did. No index: who counts them goes by
-- jobs_unfinished, which holds the owner's unfinished jobs alone.
alter table umbra.jobs add column submitted_by text;
