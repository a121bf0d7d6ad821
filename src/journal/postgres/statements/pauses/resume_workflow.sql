-- From now on new jobs of the workflow begin. Returns no row if it is not paused.
update umbra.workflow_pauses set resumed_at = $3::text::bigint
where owner = $1::text and name = $2::text and resumed_at is null
returning 1
