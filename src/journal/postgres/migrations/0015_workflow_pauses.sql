-- Workflows whose new jobs do not begin. resumed_at: jobs that were submitted while it was paused are being resumed; the
-- row is removed when that is done.
create table umbra.workflow_pauses (
  owner text not null,
  name text not null,
  paused_at bigint not null,
  paused_by text,
  reason text,
  resumed_at bigint,
  primary key (owner, name)
);
