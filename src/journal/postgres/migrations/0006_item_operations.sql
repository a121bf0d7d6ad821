-- Items of a node with `for_each` have slots and operations of their own. `item` counts from 0; -1: of the node itself.

alter table umbra.slots add column item int not null default -1;
alter table umbra.slots drop constraint slots_pkey;
alter table umbra.slots add primary key (provider, job_id, node, item);

alter table umbra.operations add column item int not null default -1;
alter table umbra.operations drop constraint operations_pkey;
alter table umbra.operations add primary key (provider, external_id, job_id, node, item);
