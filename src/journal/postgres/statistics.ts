import { FIELD, plain, records } from "../joined-text.ts"
import type { FactOfJob, RollUp, StatisticsStore, StoredTotals } from "../port/statistics.ts"
import type { Database } from "./database.ts"
import { epochs } from "./encode.ts"

/** Roll-ups of statistics on PostgreSQL. */
export class SqlStatistics implements StatisticsStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async watermarks(partitions: Parameters<StatisticsStore["watermarks"]>[0]) {
    const values = [partitions.map(({ partition }) => partition), partitions.map(({ upTo }) => upTo)]
    return this.#database.query<Awaited<ReturnType<StatisticsStore["watermarks"]>>[number]>(
      "statisticsWatermarks",
      values,
    )
  }

  async factsOfJobs({ partition, after, upTo, limit }: Parameters<StatisticsStore["factsOfJobs"]>[0]) {
    return this.#database.query<FactOfJob>("statisticsFacts", [partition, after, upTo, limit])
  }

  async readForUpdate({ partition, keys }: Parameters<StatisticsStore["readForUpdate"]>[0]) {
    return this.#database.query<RollUp>("statisticsForUpdate", [
      partition,
      keys.map(({ owner }) => owner),
      keys.map(({ workflow }) => workflow),
      keys.map(({ version }) => version),
      keys.map(({ hour }) => hour),
    ])
  }

  async write({ moves, partition, rollUps }: Parameters<StatisticsStore["write"]>[0]) {
    const values = [
      ...epochs(moves),
      moves.map(({ from }) => from),
      moves.map(({ to }) => to),
      partition,
      records(rollUps, rollUpRecord),
    ]
    const [row] = await this.#database.query<{ isHeld: boolean; isDone: boolean }>("statisticsWrite", values)
    return row!.isHeld || row!.isDone
  }

  async read({ owner, workflow, version, from, to }: Parameters<StatisticsStore["read"]>[0]) {
    return this.#database.query<StoredTotals>("statisticsRead", [owner, workflow, from, to, version])
  }

  async purgeHours({ before, limit }: Parameters<StatisticsStore["purgeHours"]>[0]) {
    return (await this.#database.query<{ count: number }>("statisticsPurge", [before, limit]))[0]!.count
  }
}

function rollUpRecord({ owner, workflow, version, hour, node, data }: RollUp): string {
  return [plain(owner), plain(workflow), version, hour, node, data].join(FIELD)
}
