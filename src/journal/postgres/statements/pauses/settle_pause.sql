-- All jobs that waited are resumed. A pause that began since then stays.
delete from umbra.workflow_pauses
where owner = $1::text and name = $2::text and resumed_at = $3::text::bigint
