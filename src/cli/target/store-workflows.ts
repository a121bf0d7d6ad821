import type { Alias, AliasMove, PushedWorkflow, StoredWorkflow, WorkflowVersion } from "../../client/index.ts"
import { loadWorkflow } from "../../definition/index.ts"
import { noSuchWorkflow } from "../../engine/versions.ts"
import { UmbraError } from "../../errors.ts"
import { deleteAlias, moveAlias } from "../../jobs/aliases.ts"
import { aliasView, moveView, summaryView, versionView } from "../../jobs/workflow-view.ts"
import { type AdapterModules, adaptersFor } from "../commands/adapters.ts"
import { loadCatalog } from "../commands/handlers.ts"
import type { Store } from "./store.ts"
import type { TargetWorkflows } from "./target.ts"

const PAGE = 200
const MANY_MOVES = 1000

/** Workflows of one owner. */
export class StoreWorkflows implements TargetWorkflows {
  readonly #store: Store
  readonly #owner: string
  readonly #modules: AdapterModules

  constructor(
    store: Store,
    { owner, modules }: { readonly owner: string; readonly modules: AdapterModules },
  ) {
    this.#store = store
    this.#owner = owner
    this.#modules = modules
  }

  async push(text: string): Promise<PushedWorkflow> {
    const { plan, problems } = loadWorkflow(text, {
      handlers: await loadCatalog(this.#modules.handlers ?? []),
      adapters: await adaptersFor(text, this.#modules),
    })
    if (plan === undefined)
      throw new UmbraError(problems[0]?.code ?? "E101", "the workflow has problems.", {
        details: { problems },
      })
    const { name, version, unchanged } = await (await this.#store.journal()).putWorkflow({
      owner: this.#owner,
      name: plan.name,
      hash: plan.hash,
      definition: JSON.stringify(plan.document),
      createdAt: Date.now(),
      pushedBy: "local",
      rules: plan.rules,
    })
    return { name, version, hash: plan.hash, unchanged }
  }

  async get(
    name: string,
    { version }: { readonly version?: number | undefined } = {},
  ): Promise<StoredWorkflow> {
    const key = { owner: this.#owner, name }
    const journal = await this.#store.journal()
    const row = await journal.readWorkflow({ ...key, version })
    if (row === null || row.deletedAt !== null)
      throw noSuchWorkflow(version === undefined ? name : `${name}@${version}`)
    return { ...versionView(row), aliases: (await journal.registry.listAliases(key)).map(aliasView) }
  }

  async *list(): AsyncGenerator<WorkflowVersion, void, undefined> {
    const registry = await this.#store.registry()
    for (let after: string | undefined; ; ) {
      const page = await registry.listWorkflows({
        owner: this.#owner,
        limit: PAGE,
        after,
      })
      yield* page.map(row => summaryView(row.name, row))
      if (page.length < PAGE) return
      after = page.at(-1)!.name
    }
  }

  async *versions(name: string): AsyncGenerator<WorkflowVersion, void, undefined> {
    const registry = await this.#store.registry()
    for (let before: number | undefined; ; ) {
      const page = await registry.listVersions({
        owner: this.#owner,
        name,
        limit: PAGE,
        before,
      })
      if (page.length === 0 && before === undefined) throw noSuchWorkflow(name)
      yield* page.map(row => summaryView(name, row))
      if (page.length < PAGE) return
      before = page.at(-1)!.version
    }
  }

  async setAlias(
    name: string,
    alias: string,
    target: number | { readonly [version: string]: number },
  ): Promise<Alias> {
    const weights = typeof target === "number" ? { [target]: 1 } : target
    const targets = Object.entries(weights).map(([version, weight]) => ({ version: Number(version), weight }))
    return moveAlias(await this.#store.registry(), { owner: this.#owner, name, alias, targets, by: "local" })
  }

  async deleteAlias(name: string, alias: string): Promise<void> {
    await deleteAlias(await this.#store.registry(), { owner: this.#owner, name, alias, by: "local" })
  }

  async aliasHistory(name: string, alias: string): Promise<readonly AliasMove[]> {
    const query = { owner: this.#owner, name, alias, limit: MANY_MOVES }
    const moves = await (await this.#store.registry()).listAliasMoves(query)
    if (moves.length === 0) throw noSuchWorkflow(`${name}@${alias}`)
    return moves.map(moveView)
  }

  async delete(name: string): Promise<void> {
    const deletion = { owner: this.#owner, name, at: Date.now(), by: "local" }
    if (!(await (await this.#store.registry()).deleteWorkflow(deletion))) throw noSuchWorkflow(name)
  }
}
