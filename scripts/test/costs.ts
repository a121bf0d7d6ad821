/**
 * `UMBRA_TEST_COSTS=yes npm test`: what each test file cost, in seconds. The processor time is that of the worker and of all
 * processes it started; the services of the run are not among them. Linux only.
 */
import { readFile } from "node:fs/promises"

/** One line of the file that test/support/costs.ts writes. */
export interface FileCost {
  readonly file: string
  readonly wall: number
  readonly worker: number
  readonly processes: number
}

export async function readCosts(path: string): Promise<readonly FileCost[]> {
  const text = await readFile(path, "utf8").catch(() => "")
  return text
    .split("\n")
    .filter(line => line !== "")
    .map(line => JSON.parse(line) as FileCost)
}

/** The files that took most processor time, and the sums. */
export function costsTable(costs: readonly FileCost[], most = 500): string {
  const processor = ({ worker, processes }: FileCost) => worker + processes
  const sorted = costs.toSorted((a, b) => processor(b) - processor(a))
  const sum = (of: (cost: FileCost) => number) => costs.reduce((total, cost) => total + of(cost), 0)
  const row = (cells: readonly (string | number)[]) =>
    cells
      .map(cell => (typeof cell === "number" ? cell.toFixed(1) : cell).padStart(10))
      .join("")
      .concat("  ")
  return [
    `${row(["processor", "worker", "processes", "wall"])}file`,
    ...sorted
      .slice(0, most)
      .map(cost => row([processor(cost), cost.worker, cost.processes, cost.wall]) + cost.file),
    `${row([sum(processor), sum(cost => cost.worker), sum(cost => cost.processes), sum(cost => cost.wall)])}all ${costs.length}`,
  ].join("\n")
}
