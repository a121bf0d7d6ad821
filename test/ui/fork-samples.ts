/** A job that failed, whose forks the tests of the page make. */
import type { Page } from "playwright-core"
import { defineHandler } from "../../src/worker/handler.ts"
import { openUiStage, type UiStage } from "./ui-stage.ts"

/** Whether its handler `shaky` fails. */
export const shaky = { isBroken: true }
export const hostile = `<img src=x onerror="document.title='bad'">`

const handlers = [
  defineHandler({ name: "compute", effects: false, run: config => ({ got: config }) as never }),
  defineHandler({
    name: "shaky",
    effects: false,
    run: () => {
      if (shaky.isBroken) throw new Error(hostile)
      return {}
    },
  }),
  defineHandler({ name: "charge", effects: true, run: () => ({}) }),
  defineHandler({ name: "mail", effects: true, run: () => ({}) }),
  defineHandler({ name: "silent", run: () => ({}) }),
]

const order = {
  name: "order",
  input: { type: "object", properties: { price: { type: "number", maximum: 100 } } },
  nodes: [
    { id: "load", handler: "transform", config: { value: [1, 2, 3, 4] } },
    { id: "price", handler: "transform", config: { value: "{{ input.price }}" } },
    { id: "never", handler: "transform", when: "{{ false }}", dependencies: ["load"], config: { value: 1 } },
    {
      id: "each",
      handler: "compute",
      for_each: "{{ load }}",
      dependencies: ["load"],
      config: { n: "{{ item }}" },
    },
    { id: "pay", handler: "charge", dependencies: ["price"] },
    { id: "check", handler: "shaky", retry: { max_attempts: 1 }, dependencies: ["each", "pay"] },
    { id: "inform", handler: "mail", dependencies: ["check"] },
    { id: "note", handler: "silent", dependencies: ["check"] },
  ],
}

export interface ForkStage {
  readonly stage: UiStage
  readonly failed: string
}

export async function openForkStage(): Promise<ForkStage> {
  const stage = await openUiStage({ umbra: { handlers } })
  const failed = await stage.start(order, { price: 3 })
  await stage.umbra.wait(failed)
  // A later version: a changed node, a new one, one less.
  await stage.umbra.register({
    ...order,
    nodes: [
      ...order.nodes
        .filter(({ id }) => id !== "note")
        .map(node => (node.id === "load" ? { ...node, config: { value: [5, 6] } } : node)),
      { id: "extra", handler: "compute", dependencies: ["load"] },
    ],
  } as never)
  return { stage, failed }
}

export const preview = async ({ stage, failed }: ForkStage, body: object = {}) =>
  (await stage.ask(`/jobs/${failed}/fork`, { method: "POST", body: { ...body, dry_run: true } })).body

export interface Listed {
  readonly node: string
  readonly because: string
}

/** By node: the kind that the graph shows. */
export const kinds = (page: Page): Promise<Record<string, string>> =>
  page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll<HTMLElement>("[data-fork][data-id]")].map(card => [
        card.dataset.id!,
        card.dataset.fork!,
      ]),
    ),
  )

export const text = (page: Page, selector: string) => page.locator(selector).textContent()
export const button = ".fpanel footer .primary"
