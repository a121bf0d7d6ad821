-- Pauses a workflow: its new jobs do not begin. Returns no row if it is paused already. $4 and $5 may be null.
insert into umbra.workflow_pauses (owner, name, paused_at, paused_by, reason)
values ($1::text, $2::text, $3::text::bigint, $4::text, $5::text)
on conflict (owner, name) do update
set paused_at = excluded.paused_at, paused_by = excluded.paused_by, reason = excluded.reason, resumed_at = null
where workflow_pauses.resumed_at is not null
returning 1
