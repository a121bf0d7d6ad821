-- Pauses a workflow: its new jobs do not begin. Returns no row if it is paused already. @by and @reason may be null.
insert into umbra.workflow_pauses (owner, name, paused_at, paused_by, reason)
values (@owner::text, @name::text, @at::text::bigint, @by::text, @reason::text)
on conflict (owner, name) do update
set paused_at = excluded.paused_at, paused_by = excluded.paused_by, reason = excluded.reason, resumed_at = null
where workflow_pauses.resumed_at is not null
returning 1
