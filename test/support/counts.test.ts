import { expect, it } from "vitest"
import { countTests, readCounts, summary } from "../../scripts/test/counts.ts"

const file = (status: string, ...tests: string[]) => ({
  status,
  assertionResults: tests.map(status => ({ status })),
})

it("counts what passed, failed and was skipped", () => {
  const testResults = [file("passed", "passed", "passed", "pending"), file("failed", "failed", "todo")]
  const counts = countTests({ testResults }, 1)
  expect(summary(counts)).toBe("2 passed, 1 failed, 2 skipped")
})

it("says nothing of skipped tests when there are none", () => {
  expect(summary(countTests({ testResults: [file("passed", "passed")] }, 0))).toBe("1 passed, 0 failed")
})

it("counts a file that could not be loaded as a failure", () => {
  expect(countTests({ testResults: [file("failed"), file("passed", "passed")] }, 1)).toMatchObject({
    failed: 1,
  })
})

it("never says 0 failed when vitest failed: an error outside any test, or no report at all", async () => {
  expect(countTests({ testResults: [file("passed", "passed")] }, 1)).toMatchObject({ passed: 1, failed: 1 })
  expect(await readCounts("no/such/report.json", 1)).toEqual({ passed: 0, failed: 1, skipped: 0 })
})
