import { expect, it } from "vitest"
import { costsTable } from "../../scripts/test/costs.ts"

it("lists the files that took most processor time, and sums all", () => {
  const costs = [
    { file: "test/a.test.ts", wall: 10, worker: 1, processes: 0 },
    { file: "test/b.test.ts", wall: 2, worker: 1.5, processes: 3 },
    { file: "test/c.test.ts", wall: 1, worker: 0.5, processes: 0 },
  ]
  const rows = costsTable(costs, 2)
    .split("\n")
    .map(line => line.trim().split(/\s+/))
  expect(rows).toEqual([
    ["processor", "worker", "processes", "wall", "file"],
    ["4.5", "1.5", "3.0", "2.0", "test/b.test.ts"],
    ["1.0", "1.0", "0.0", "10.0", "test/a.test.ts"],
    ["6.0", "3.0", "3.0", "13.0", "all", "3"],
  ])
})
