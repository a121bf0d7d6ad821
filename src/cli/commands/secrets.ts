/** `umbra secrets check FILE`: the secrets that a workflow reads, and which of them a worker with this environment would lack. */
import { localOwner } from "../../core/facts.ts"
import type { Plan, PlanNode } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import { providerSecretsFromEnvironment, secretsFromEnvironment } from "../../worker/environment-secrets.ts"
import { providerSecret, readSecrets, secretNames } from "../../worker/secrets.ts"
import { exitCode } from "../exit.ts"
import { loadDocument, loadProviders, type Modules } from "../input/modules.ts"
import { padded, print } from "../output/print.ts"
import { problemsAsJson, renderProblems } from "../output/problems.ts"
import { paintFor, printable } from "../output/terminal.ts"

export interface SecretsOptions extends Modules {
  readonly json?: boolean
  readonly owner?: string
}

interface Need {
  readonly name: string
  /** `provider`: the second namespace, which workflows cannot read. */
  readonly space: "workflow" | "provider"
  /** The nodes, routes or provider that read it. */
  readonly used_by: readonly string[]
  readonly available: boolean
  /** What to do; null: nothing. */
  readonly message: string | null
}

export async function check(file: string, options: SecretsOptions): Promise<number> {
  const { json = false, owner = localOwner } = options
  const { source, plan, problems } = await loadDocument(file, options)
  if (plan === undefined) {
    const { name, text } = source
    const listing = { name, text, paint: paintFor(process.stdout) }
    process.stdout.write(json ? problemsAsJson(problems) : renderProblems(problems, listing))
    return exitCode.invalid
  }
  const needs = [...workflowNeeds(plan, owner), ...(await providerNeeds(plan, options))]
  print(options, { owner, secrets: needs }, () => table(source.name, owner, needs))
  return needs.every(({ available }) => available) ? exitCode.ok : exitCode.failed
}

function workflowNeeds({ nodes, pipeline }: Plan, owner: string): Need[] {
  const source = secretsFromEnvironment()
  const configs: (readonly [user: string, config: PlanNode["config"]])[] =
    pipeline === null
      ? nodes.map(({ id, config }) => [id, config])
      : pipeline.routes.flatMap(({ name, adapters }) => adapters.map(({ config }) => [name, config] as const))
  const users = new Map<string, Set<string>>()
  for (const [user, { templates }] of configs)
    for (const name of templates.flatMap(({ template }) => secretNames(template)))
      users.set(name, (users.get(name) ?? new Set()).add(user))
  return [...users].map(([name, by]) => ({
    ...{ name, space: "workflow", used_by: [...by] },
    ...verdict(() => readSecrets([name], source, owner)),
  }))
}

/** Which secrets a provider reads is known only with --providers. */
async function providerNeeds(plan: Plan, { providers, handlers = [] }: SecretsOptions): Promise<Need[]> {
  if (providers === undefined) return []
  const { signingSecrets } = await import("../../provider/signature.ts")
  const source = providerSecretsFromEnvironment()
  const used = (await loadProviders({ providers, handlers })).filter(({ name }) =>
    plan.providers.includes(name),
  )
  return used.flatMap(({ name: provider, secrets = [], verify }) =>
    [...new Set([...secrets, ...signingSecrets(verify)])].map(name => ({
      ...{ name, space: "provider" as const, used_by: [provider] },
      ...verdict(() => providerSecret(name, source)),
    })),
  )
}

function verdict(read: () => unknown): Pick<Need, "available" | "message"> {
  try {
    read()
    return { available: true, message: null }
  } catch (error) {
    if (error instanceof UmbraError) return { available: false, message: error.message }
    throw error
  }
}

function table(file: string, owner: string, needs: readonly Need[]): string {
  const paint = paintFor(process.stdout)
  if (needs.length === 0) return `${paint.green(`✓ ${file} reads no secret`)}\n`
  const names = padded(needs.map(({ name }) => printable(name)))
  const lines = needs.map(({ space, used_by, available, message }, i) => {
    const users = `${space === "provider" ? "provider " : ""}${used_by.map(printable).join(", ")}`
    const mark = available ? paint.green("✓") : paint.red("✗")
    return `${mark} ${names[i]}  ${paint.dim(users)}\n${message === null ? "" : `  ${printable(message)}\n`}`
  })
  const missing = needs.filter(({ available }) => !available).length
  const sum =
    missing === 0
      ? paint.green(`✓ all secrets of ${file} are available for owner "${printable(owner)}"`)
      : paint.red(`✗ ${missing} of ${needs.length} missing for owner "${printable(owner)}"`)
  return `${lines.join("")}${sum}\n`
}
