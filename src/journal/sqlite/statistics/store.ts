/** Roll-ups of statistics on one SQLite connection: each method is one transaction. */
import type {
  FactOfJob,
  PartitionWatermark,
  RollUp,
  StatisticsStore,
  StoredTotals,
} from "../../port/statistics.ts"
import { heldPartitions } from "../append.ts"
import { type Connection, freeText, type Sync } from "../database.ts"

const WATERMARK = "select seq from statistics_watermarks where partition = ?"

const FACTS = `
select
  f.seq, f.at, f.job_id as jobId, j.owner, j.workflow, j.workflow_version as version, j.stats,
  j.finished_at is not null as hasEnded
from (
  select seq, at, job_id from journal where partition = ? and seq > ? and seq <= ? order by seq limit ?
) as f
left join jobs as j on j.id = f.job_id
order by f.seq`

const FOR_UPDATE = `
select owner, workflow, version, hour, node, data from node_stats
where owner = ? and workflow = ? and hour = ? and version = ? and partition = ?`

const WRITE = `
insert into node_stats (owner, workflow, version, hour, node, partition, data) values (?, ?, ?, ?, ?, ?, ?)
on conflict (owner, workflow, hour, version, node, partition) do update set data = excluded.data`

export class SqliteStatistics implements Sync<StatisticsStore> {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  watermarks(partitions: Parameters<StatisticsStore["watermarks"]>[0]): PartitionWatermark[] {
    return partitions.map(({ partition, upTo }) => {
      const seq = this.#watermark(partition)
      const next = "select 1 from journal where partition = ? and seq > ? and seq <= ? limit 1"
      return { partition, seq, isBehind: this.#connection.get(next, partition, seq, upTo) !== undefined }
    })
  }

  #watermark(partition: number): number {
    return this.#connection.get<{ seq: number }>(WATERMARK, partition)?.seq ?? -1
  }

  factsOfJobs(query: Parameters<StatisticsStore["factsOfJobs"]>[0]): FactOfJob[] {
    const { partition, after, upTo, limit } = query
    return this.#connection
      .all<FactOfJob>(FACTS, partition, after, upTo, limit)
      .map(row => ({ ...row, hasEnded: Boolean(row.hasEnded) }))
  }

  readForUpdate({ partition, keys }: Parameters<StatisticsStore["readForUpdate"]>[0]): RollUp[] {
    return keys.flatMap(({ owner, workflow, hour, version }) =>
      this.#connection.all<RollUp>(FOR_UPDATE, owner, workflow, hour, version, partition),
    )
  }

  write({ moves, partition, rollUps }: Parameters<StatisticsStore["write"]>[0]): boolean {
    return this.#connection.transaction(() => {
      const held = heldPartitions(this.#connection, moves)
      const isHeld = moves.every(move => held.has(move.partition))
      if (isHeld && moves.every(({ partition, from }) => this.#watermark(partition) === from)) {
        const sql = `insert into statistics_watermarks (partition, seq) values (?, ?)
          on conflict (partition) do update set seq = excluded.seq`
        for (const { partition, to } of moves) this.#connection.run(sql, partition, to)
        for (const rollUp of rollUps) this.#put(partition, rollUp)
        return true
      }
      return moves.every(({ partition, to }) => this.#watermark(partition) === to)
    })
  }

  #put(partition: number, { owner, workflow, version, hour, node, data }: RollUp): void {
    const key = [freeText(owner), freeText(workflow), version, hour, freeText(node)] as const
    this.#connection.run(WRITE, ...key, partition, data)
  }

  read({ owner, workflow, version, from, to }: Parameters<StatisticsStore["read"]>[0]): StoredTotals[] {
    return this.#connection.all(
      `select version, node, group_concat(data, char(10)) as data from node_stats
       where owner = ?1 and workflow = ?2 and hour >= ?3 and hour < ?4 and (?5 is null or version = ?5)
       group by hour, version, node`,
      owner,
      workflow,
      from,
      to,
      version ?? null,
    )
  }

  purgeHours({ before, limit }: Parameters<StatisticsStore["purgeHours"]>[0]): number {
    return this.#connection.run(
      `delete from node_stats where (owner, workflow, hour, version, node, partition) in (
         select owner, workflow, hour, version, node, partition from node_stats where hour < ? limit ?
       )`,
      before,
      limit,
    )
  }
}
