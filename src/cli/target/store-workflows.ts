import { pages } from "../../client/pages.ts"
import type { Weights } from "../../client/types.ts"
import { deleteAlias, moveAlias } from "../../jobs/aliases.ts"
import {
  aliasHistory,
  deleteWorkflow,
  versionPage,
  workflowPage,
  workflowWithAliases,
} from "../../jobs/workflows.ts"
import type { Store } from "./store.ts"
import type { TargetWorkflows } from "./target.ts"

const PAGE = 200

/** Workflows of one owner. */
export function storeWorkflows(store: Store, owner: string): TargetWorkflows {
  const by = "local"
  return {
    async get(name, { version } = {}) {
      const journal = await store.journal()
      const workflows = { registry: journal.registry, workflow: journal.readWorkflow.bind(journal) }
      return workflowWithAliases(workflows, { owner, name, version })
    },
    async *list() {
      const registry = await store.registry()
      const ask = (after?: string) => workflowPage(registry, { owner, after, limit: PAGE })
      for await (const { workflows } of pages(ask)) yield* workflows
    },
    async *versions(name) {
      const registry = await store.registry()
      const ask = (before?: number) => versionPage(registry, { owner, name, before, limit: PAGE })
      for await (const { versions } of pages(ask)) yield* versions
    },
    async setAlias(name, alias, target: number | Weights) {
      const weights = typeof target === "number" ? { [target]: 1 } : target
      const targets = Object.entries(weights).map(([version, weight]) => ({
        version: Number(version),
        weight,
      }))
      return moveAlias(await store.registry(), { owner, name, alias, targets, by })
    },
    async deleteAlias(name, alias) {
      await deleteAlias(await store.registry(), { owner, name, alias, by })
    },
    async aliasHistory(name, alias) {
      return (await aliasHistory(await store.registry(), { owner, name, alias })).moves
    },
    async delete(name) {
      await deleteWorkflow(await store.registry(), { owner, name, by })
    },
  }
}
