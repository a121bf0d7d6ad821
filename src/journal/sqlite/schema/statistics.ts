/** Statistics of ended jobs (core/statistics/totals.ts). */
export const statisticsTables = `
-- By workflow version, node and hour. The rows of a partition are written by its owner alone, for one or several of its
-- partitions. node is empty for whole jobs.
create table node_stats (
  owner text not null,
  workflow text not null,
  hour integer not null,
  version integer not null,
  node text not null,
  partition integer not null,
  data text not null,
  primary key (owner, workflow, hour, version, node, partition)
) strict, without rowid;

-- Removal of old hours.
create index node_stats_hour on node_stats (hour);

-- All ends of jobs with a seq up to this one are counted in node_stats.
create table statistics_watermarks (
  partition integer primary key,
  seq integer not null
) strict;

-- Jobs that ended before are not counted: a new owner begins with the next epoch. In a new file there are no partitions yet.
insert into statistics_watermarks (partition, seq)
select id, (epoch + 1) * 17179869184 - 1 from partitions;
`
