/** The port's contract. An adapter is what passes all of it; each adapter's test file opens one store for it. */
import { afterAll, beforeAll, describe } from "vitest"
import { appendContract } from "./contract/append.ts"
import { artifactsContract } from "./contract/artifacts.ts"
import { dataContract } from "./contract/data.ts"
import { feedContract } from "./contract/feed.ts"
import { forksContract } from "./contract/forks.ts"
import { inboxContract } from "./contract/inbox.ts"
import { jobsContract } from "./contract/jobs.ts"
import { listsContract } from "./contract/lists.ts"
import { logsContract } from "./contract/logs.ts"
import { ownershipContract } from "./contract/ownership.ts"
import { pipelineClaimsContract } from "./contract/pipeline-claims.ts"
import { pipelineCommitsContract } from "./contract/pipeline-commits.ts"
import { pipelineReadingsContract } from "./contract/pipeline-readings.ts"
import { pipelineRetentionContract } from "./contract/pipeline-retention.ts"
import { providersContract } from "./contract/providers.ts"
import { registryContract } from "./contract/registry.ts"
import { retentionContract } from "./contract/retention.ts"
import { schedulesContract } from "./contract/schedules.ts"
import { statisticsContract } from "./contract/statistics.ts"
import { workflowsContract } from "./contract/workflows.ts"
import type { Stage } from "./fixture.ts"

export interface OpenStage extends Stage {
  close(): Promise<void>
}

export function journalContract(name: string, open: () => Promise<OpenStage>): void {
  suite(`${name} keeps the journal's contract`, open, [
    appendContract,
    dataContract,
    jobsContract,
    workflowsContract,
    registryContract,
    providersContract,
    ownershipContract,
    inboxContract,
    feedContract,
  ])
  // On a store of its own: tests of appends and of the inbox leave open messages in partitions 60 to 63.
  suite(`${name} keeps the contract of retention`, open, [retentionContract])
  suite(`${name} keeps the contract of lists`, open, [listsContract])
  suite(`${name} keeps the contract of statistics`, open, [statisticsContract])
  suite(`${name} keeps the contract of schedules`, open, [schedulesContract])
  suite(`${name} keeps the contract of logs`, open, [logsContract])
  suite(`${name} keeps the contract of artifacts`, open, [artifactsContract])
  suite(`${name} keeps the contract of forks`, open, [forksContract])
  // On a store of their own: tests that take a partition each leave none.
  suite(`${name} keeps the contract of pipelines`, open, [
    pipelineCommitsContract,
    pipelineReadingsContract,
    pipelineClaimsContract,
    pipelineRetentionContract,
  ])
}

type Part = (stage: () => Stage) => void

function suite(name: string, open: () => Promise<OpenStage>, parts: readonly Part[]): void {
  describe(name, () => {
    let stage: OpenStage
    beforeAll(async () => {
      stage = await open()
    })
    afterAll(() => stage?.close())
    for (const part of parts) part(() => stage)
  })
}
