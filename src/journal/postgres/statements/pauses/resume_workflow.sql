-- From now on new jobs of the workflow begin. Returns no row if it is not paused.
update umbra.workflow_pauses set resumed_at = @at::text::bigint
where owner = @owner::text and name = @name::text and resumed_at is null
returning 1
