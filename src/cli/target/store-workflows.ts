/** Workflows of one owner, on a folder or a database. */

import { pages } from "../../client/http.ts"
import type { Weights } from "../../client/types.ts"
import { Plans } from "../../engine/plans.ts"
import { PAUSES_CHANGED } from "../../engine/workflow-pauses.ts"
import { deleteAlias, moveAlias } from "../../jobs/aliases.ts"
import { workflowStatistics } from "../../jobs/statistics.ts"
import {
  aliasHistory,
  deleteWorkflow,
  pauseWorkflow,
  resumeWorkflow,
  versionPage,
  workflowDiff,
  workflowPage,
  workflowWithAliases,
} from "../../jobs/workflows.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { TargetWorkflows } from "./open.ts"

const PAGE = 200

export function storeWorkflows(owner: string, journal: () => Promise<Journal>): TargetWorkflows {
  const by = "local"
  const registry = async () => (await journal()).registry
  const stored = async () => {
    const store = await journal()
    return { registry: store.registry, workflow: store.readWorkflow.bind(store) }
  }
  return {
    async get(name, { version } = {}) {
      return workflowWithAliases(await stored(), { owner, name, version })
    },
    async statistics(workflow, { version, from, to } = {}) {
      const store = await journal()
      const parts = { journal: store, plans: new Plans(store), now: Date.now }
      return workflowStatistics(parts, { owner, workflow, version, from, to })
    },
    diff: async (name, between) => workflowDiff(await stored(), { owner, name, ...between }),
    async *list() {
      const known = await registry()
      const ask = (after?: string) => workflowPage(known, { owner, after, limit: PAGE })
      for await (const { workflows } of pages(ask)) yield* workflows
    },
    async *versions(name) {
      const known = await registry()
      const ask = (before?: number) => versionPage(known, { owner, name, before, limit: PAGE })
      for await (const { versions } of pages(ask)) yield* versions
    },
    async setAlias(name, alias, target: number | Weights) {
      const weights = typeof target === "number" ? { [target]: 1 } : target
      const targets = Object.entries(weights).map(([version, weight]) => ({
        version: Number(version),
        weight,
      }))
      return moveAlias(await registry(), { owner, name, alias, targets, by })
    },
    async deleteAlias(name, alias) {
      await deleteAlias(await registry(), { owner, name, alias, by })
    },
    async aliasHistory(name, alias) {
      return (await aliasHistory(await registry(), { owner, name, alias })).moves
    },
    async pause(name, { reason } = {}) {
      const store = await journal()
      const pause = { owner, name, by, reason }
      await pauseWorkflow(store.registry, pause, () => store.feed.notify(PAUSES_CHANGED))
      return this.get(name)
    },
    async resume(name) {
      const store = await journal()
      await resumeWorkflow(store.registry, { owner, name }, () => store.feed.notify(PAUSES_CHANGED))
      return this.get(name)
    },
    async delete(name) {
      await deleteWorkflow(await registry(), { owner, name, by })
    },
  }
}
