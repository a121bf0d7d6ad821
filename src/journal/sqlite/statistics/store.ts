/** Roll-ups of statistics on one SQLite connection: each method is one transaction. */
import type {
  FactOfJob,
  PartitionWatermark,
  RollUp,
  StatisticsQuery,
  StatisticsStore,
  StoredTotals,
} from "../../port/statistics.ts"
import { heldPartitions } from "../append.ts"
import { SqliteStore, type Sync } from "../database.ts"

type Argument<Verb extends keyof StatisticsStore> = Parameters<StatisticsStore[Verb]>[0]

const WATERMARK = "select seq from statistics_watermarks where partition = ?"

const FACTS = `
select
  f.seq, f.at, f.job_id as jobId, j.owner, j.workflow, j.workflow_version as version, j.stats,
  j.finished_at is not null as hasEnded
from (
  select seq, at, job_id from journal
  where partition = @partition and seq > @after and seq <= @up_to order by seq limit @limit
) as f
left join jobs as j on j.id = f.job_id
order by f.seq`

const FOR_UPDATE = `
select owner, workflow, version, hour, node, data from node_stats
where owner = @owner and workflow = @workflow and hour = @hour and version = @version and partition = @partition`

const WRITE = `
insert into node_stats (owner, workflow, version, hour, node, partition, data)
values (@owner, @workflow, @version, @hour, @node, @partition, @data)
on conflict (owner, workflow, hour, version, node, partition) do update set data = excluded.data`

export class SqliteStatistics extends SqliteStore implements Sync<StatisticsStore> {
  watermarks(partitions: Argument<"watermarks">): PartitionWatermark[] {
    return partitions.map(({ partition, upTo }) => {
      const seq = this.#watermark(partition)
      const next = "select 1 from journal where partition = ? and seq > ? and seq <= ? limit 1"
      return { partition, seq, isBehind: this.exists(next, partition, seq, upTo) }
    })
  }

  #watermark(partition: number): number {
    return this.connection.get<{ seq: number }>(WATERMARK, partition)?.seq ?? -1
  }

  factsOfJobs(query: Argument<"factsOfJobs">): FactOfJob[] {
    const rows = this.connection.all<FactOfJob>(FACTS, query)
    return rows.map(row => ({ ...row, hasEnded: Boolean(row.hasEnded) }))
  }

  readForUpdate({ partition, keys }: Argument<"readForUpdate">): RollUp[] {
    return keys.flatMap(key => this.connection.all<RollUp>(FOR_UPDATE, { ...key, partition }))
  }

  write({ moves, partition, rollUps }: Argument<"write">): boolean {
    return this.connection.transaction(() => {
      const held = heldPartitions(this.connection, moves)
      const isHeld = moves.every(move => held.has(move.partition))
      if (isHeld && moves.every(({ partition, from }) => this.#watermark(partition) === from)) {
        const sql = `insert into statistics_watermarks (partition, seq) values (?, ?)
          on conflict (partition) do update set seq = excluded.seq`
        for (const { partition, to } of moves) this.connection.run(sql, partition, to)
        for (const rollUp of rollUps) this.connection.run(WRITE, { ...rollUp, partition })
        return true
      }
      return moves.every(({ partition, to }) => this.#watermark(partition) === to)
    })
  }

  read(query: StatisticsQuery): StoredTotals[] {
    const sql = `select version, node, group_concat(data, char(10)) as data from node_stats
      where owner = @owner and workflow = @workflow and hour >= @from and hour < @to
        and (@version is null or version = @version)
      group by hour, version, node`
    return this.connection.all(sql, query)
  }

  purgeHours({ before, limit }: Argument<"purgeHours">): number {
    const sql = `delete from node_stats where (owner, workflow, hour, version, node, partition) in (
      select owner, workflow, hour, version, node, partition from node_stats where hour < ? limit ?
    )`
    return this.connection.run(sql, before, limit)
  }
}
