-- A message that a statement sends (grant_slots, deliver_events) has columns, and the reader of the inbox builds the
-- command. `kind` is grant_slot or external; null: another process built the command. `item` -1: of the node itself.
-- `news` is an external command without its `type`, `node` and `item`.
alter table umbra.inbox
  add column kind text,
  add column node int,
  add column item int,
  add column news json;

-- A process of an earlier release, which may run until the upgrade is complete, reads `command` alone. The release after
-- this one drops the trigger, its function, and the constraint that `command` is not null.
create function umbra.inbox_command() returns trigger language plpgsql as $$
begin
  new.command := ('{"type":"' || new.kind || '","node":' || new.node
    || case when new.item >= 0 then ',"item":' || new.item else '' end
    || case when new.news is null then '}' else ',' || substr(new.news::text, 2) end)::json;
  return new;
end
$$;

create trigger inbox_command before insert on umbra.inbox
for each row when (new.command is null) execute function umbra.inbox_command();
