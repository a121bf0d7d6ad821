import { expect, it } from "vitest"
import { RUNNING } from "../../src/core/state.ts"
import type { JobArtifacts } from "../../src/engine/owner/job-artifacts.ts"
import type { LiveJob } from "../../src/engine/owner/live-job.ts"
import { type ReportedOwner, TaskReports } from "../../src/engine/owner/reports.ts"

it("X6 a worker that requests a place again leaves no rejected promise behind when the partition moves", async () => {
  const job = {
    evicted: false,
    plan: { nodes: [{ provider: "studio" }] },
    state: { owner: "local", attempt: [1], nodeStatus: [RUNNING], held: new Set() },
  } as unknown as LiveJob
  let waits = 0
  const owner = {
    jobs: new Map([["j", job]]),
    command: () => {},
    durable: () => {
      waits++
      return Promise.reject(new Error("the partition has moved"))
    },
    broker: { runningTask: () => null },
    external: { providers: { terms: () => ({}) }, capacity: {}, leftSubmissions: {} },
  } as unknown as ReportedOwner
  const reports = new TaskReports(owner, {} as JobArtifacts)
  const task = { jobId: "j", node: 0, attempt: 1, announce: true, place: true }
  const answers = [reports.started(task, "worker"), reports.started(task, "worker")]
  for (const answer of answers) await expect(answer).rejects.toThrow("the partition has moved")
  // A second promise would be awaited by nobody: its rejection would end the process.
  expect(waits).toBe(1)
})
