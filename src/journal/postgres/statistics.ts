import { FIELD, plain, records } from "../joined-text.ts"
import type {
  FactOfJob,
  PartitionWatermark,
  RollUp,
  StatisticsQuery,
  StatisticsStore,
  StoredTotals,
} from "../port/statistics.ts"
import { fenceColumns, SqlStore } from "./database.ts"

type Argument<Verb extends keyof StatisticsStore> = Parameters<StatisticsStore[Verb]>[0]

/** Roll-ups of statistics on PostgreSQL. */
export class SqlStatistics extends SqlStore implements StatisticsStore {
  async watermarks(list: Argument<"watermarks">) {
    const partitions = list.map(({ partition }) => partition)
    const values = { partitions, upTo: list.map(({ upTo }) => upTo) }
    return this.database.query<PartitionWatermark>("statisticsWatermarks", values)
  }

  async factsOfJobs(query: Argument<"factsOfJobs">) {
    return this.database.query<FactOfJob>("statisticsFacts", query)
  }

  async readForUpdate({ partition, keys }: Argument<"readForUpdate">) {
    return this.database.query<RollUp>("statisticsForUpdate", {
      partition,
      owners: keys.map(({ owner }) => owner),
      workflows: keys.map(({ workflow }) => workflow),
      versions: keys.map(({ version }) => version),
      hours: keys.map(({ hour }) => hour),
    })
  }

  async write({ moves, partition, rollUps }: Argument<"write">) {
    const row = await this.first<{ isHeld: boolean; isDone: boolean }>("statisticsWrite", {
      ...fenceColumns(moves),
      partition,
      from: moves.map(({ from }) => from),
      to: moves.map(({ to }) => to),
      rollUps: records(rollUps, rollUpRecord),
    })
    return row!.isHeld || row!.isDone
  }

  async read(query: StatisticsQuery) {
    return this.database.query<StoredTotals>("statisticsRead", query)
  }

  async purgeHours(purge: Argument<"purgeHours">) {
    return this.counted("statisticsPurge", purge)
  }
}

function rollUpRecord({ owner, workflow, version, hour, node, data }: RollUp): string {
  return [plain(owner), plain(workflow), version, hour, node, data].join(FIELD)
}
