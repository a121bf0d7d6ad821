-- By whom a version was pushed (a token, the subject of a JWT, "local"), and under which rules of definitions it was
-- checked: stored versions keep their meaning when a rule changes. The default is that of the first release, whose
-- processes may still push while this one starts.
alter table umbra.workflows add column pushed_by text, add column rules int not null default 1;
