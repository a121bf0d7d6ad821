-- Statistics of ended jobs, by workflow version, node and hour (src/core/statistics/totals.ts). The rows of a partition are
-- written by its owner alone, for one or several of its partitions. `node` is empty for whole jobs.
create table umbra.node_stats (
  owner text not null,
  workflow text not null,
  hour bigint not null,
  version int not null,
  node text not null,
  partition int not null,
  data text not null,
  primary key (owner, workflow, hour, version, node, partition)
);

-- Removal of old hours.
create index node_stats_hour on umbra.node_stats (hour);

-- All ends of jobs with a seq up to this one are counted in node_stats.
create table umbra.statistics_watermarks (
  partition int primary key,
  seq bigint not null
);

-- Jobs that ended before are not counted: a new owner begins with the next epoch.
insert into umbra.statistics_watermarks (partition, seq)
select id, (epoch + 1) * 17179869184 - 1 from umbra.partitions;
