-- All jobs that waited are resumed. A pause that began since then stays.
delete from umbra.workflow_pauses
where owner = @owner::text and name = @name::text and resumed_at = @resumed_at::text::bigint
