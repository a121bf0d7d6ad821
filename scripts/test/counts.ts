/**
 * Counts passed and failed tests in vitest's JSON report. A file that could not be loaded has no tests, and
 * an error outside any test belongs to none: each counts as one failure, so "0 failed" always means success.
 */
import { readFile } from "node:fs/promises"

export interface Counts {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

interface Report {
  readonly testResults: readonly {
    readonly status: string
    readonly assertionResults: readonly { readonly status: string }[]
  }[]
}

/** `code` is vitest's exit code. */
export async function readCounts(file: string, code: number): Promise<Counts> {
  const text = await readFile(file, "utf8").catch(() => null)
  return countTests(text === null ? { testResults: [] } : (JSON.parse(text) as Report), code)
}

export function countTests(report: Report, code: number): Counts {
  const statuses = report.testResults.flatMap(file => file.assertionResults.map(test => test.status))
  const passed = statuses.filter(status => status === "passed").length
  const failed = statuses.filter(status => status === "failed").length + brokenFiles(report)
  const skipped = statuses.filter(status => status !== "passed" && status !== "failed").length
  return { passed, failed: failed === 0 && code !== 0 ? 1 : failed, skipped }
}

const brokenFiles = (report: Report): number =>
  report.testResults.filter(
    file => file.status === "failed" && !file.assertionResults.some(test => test.status === "failed"),
  ).length

export const summary = ({ passed, failed, skipped }: Counts): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`
