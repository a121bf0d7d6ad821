/** Workflows of one owner, on a folder or a database. */

import { entries } from "../../client/http.ts"
import type { Weights } from "../../client/types.ts"
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
import type { TargetWorkflows } from "./open.ts"
import type { Store } from "./store.ts"

const PAGE = 200

export function storeWorkflows(owner: string, store: Store): TargetWorkflows {
  const by = "local"
  const registry = async () => (await store.journal()).registry
  const stored = async () => {
    const journal = await store.journal()
    return { registry: journal.registry, workflow: journal.readWorkflow.bind(journal) }
  }
  return {
    get: async (name, { version } = {}) => workflowWithAliases(await stored(), { owner, name, version }),
    statistics: async (workflow, { version, from, to } = {}) =>
      workflowStatistics(await store.statistics(), { owner, workflow, version, from, to }),
    diff: async (name, between) => workflowDiff(await stored(), { owner, name, ...between }),
    list: () =>
      entries(
        async (after?: string) => workflowPage(await registry(), { owner, after, limit: PAGE }),
        "workflows",
      ),
    versions: name =>
      entries(
        async (before?: number) => versionPage(await registry(), { owner, name, before, limit: PAGE }),
        "versions",
      ),
    async setAlias(name, alias, target: number | Weights) {
      const weights = typeof target === "number" ? { [target]: 1 } : target
      const targets = Object.entries(weights).map(([version, weight]) => ({
        version: Number(version),
        weight,
      }))
      return moveAlias(await registry(), { owner, name, alias, targets, by })
    },
    deleteAlias: async (name, alias) => deleteAlias(await registry(), { owner, name, alias, by }),
    aliasHistory: async (name, alias) => (await aliasHistory(await registry(), { owner, name, alias })).moves,
    async pause(name, { reason } = {}) {
      const { registry, feed } = await store.journal()
      await pauseWorkflow(registry, { owner, name, by, reason }, () => feed.notify(PAUSES_CHANGED))
      return this.get(name)
    },
    async resume(name) {
      const { registry, feed } = await store.journal()
      await resumeWorkflow(registry, { owner, name }, () => feed.notify(PAUSES_CHANGED))
      return this.get(name)
    },
    delete: async name => deleteWorkflow(await registry(), { owner, name, by }),
  }
}
