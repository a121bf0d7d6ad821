-- Run for every session. Plans must not depend on statistics: a plan made while `jobs` was empty would
-- continue to read all of it. Each statement here has an index to use; without scans, hashes and merges as
-- alternatives, the planner uses it. `jit` is off because disabled alternatives look expensive enough to
-- compile. `umbra.marks`: this release writes the entries of job_marks itself (migration 11). Settings last as
-- long as the session (@timeout_ms: statement_timeout in ms, 0 for none).
select
  set_config('plan_cache_mode', 'force_generic_plan', false),
  set_config('enable_seqscan', 'off', false),
  set_config('enable_bitmapscan', 'off', false),
  set_config('enable_hashjoin', 'off', false),
  set_config('enable_mergejoin', 'off', false),
  set_config('jit', 'off', false),
  set_config('umbra.marks', 'written', false),
  set_config('statement_timeout', @timeout_ms::text, false)
