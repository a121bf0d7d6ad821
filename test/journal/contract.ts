/** The port's contract. An adapter is what passes all of it; each adapter's test file opens one store for it. */
import { afterAll, beforeAll, describe } from "vitest"
import { appendContract } from "./contract/append.ts"
import { dataContract } from "./contract/data.ts"
import { feedContract } from "./contract/feed.ts"
import { inboxContract } from "./contract/inbox.ts"
import { jobsContract } from "./contract/jobs.ts"
import { ownershipContract } from "./contract/ownership.ts"
import { providersContract } from "./contract/providers.ts"
import { registryContract } from "./contract/registry.ts"
import { retentionContract } from "./contract/retention.ts"
import { workflowsContract } from "./contract/workflows.ts"
import type { Stage } from "./fixture.ts"

export interface OpenStage extends Stage {
  close(): Promise<void>
}

export function journalContract(name: string, open: () => Promise<OpenStage>): void {
  describe(`${name} keeps the journal's contract`, () => {
    let stage: OpenStage
    beforeAll(async () => {
      stage = await open()
    })
    afterAll(() => stage?.close())

    const current = (): Stage => stage
    appendContract(current)
    dataContract(current)
    jobsContract(current)
    workflowsContract(current)
    registryContract(current)
    providersContract(current)
    ownershipContract(current)
    inboxContract(current)
    retentionContract(current)
    feedContract(current)
  })
}
