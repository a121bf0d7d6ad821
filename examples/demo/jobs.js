// Jobs of every kind, for `npm run demo -- --ui` to look at. Everything goes through the client, as a program elsewhere would do it.
import { connect } from "umbra/client"

/** @param {string} url of the server, which has the handlers of handlers.js */
export async function makeJobs(url) {
  const umbra = connect({ url })
  const made = [
    await failedAndForked(umbra),
    await waitingForAPerson(umbra),
    await itemsAndChildren(umbra),
    await pipelineWithDeadLetters(umbra),
    await goingOn(umbra),
    await later(umbra),
  ]
  return made.flat()
}

/** Several that succeed, so that there are statistics; one that fails; and a fork of it with another config. */
async function failedAndForked(umbra) {
  const labels = { team: "shop" }
  const charge = {
    name: "checkout",
    input: {
      type: "object",
      required: ["customer", "amount"],
      properties: {
        customer: { type: "string", description: "Whose order it is" },
        amount: { type: "number", minimum: 0 },
        card: { enum: ["good", "declined"], default: "good" },
      },
    },
    nodes: [
      { id: "order", handler: "demo_work", config: { seconds: 0.05, result: "{{ input.customer }}" } },
      { id: "stock", handler: "demo_work", dependencies: ["order"], config: { seconds: 0.08 } },
      { id: "tax", handler: "transform", config: { value: "{{ input.amount * 0.19 }}" } },
      {
        id: "charge",
        handler: "demo_charge",
        dependencies: ["stock", "tax"],
        retry: { max_attempts: 3, initial_seconds: 0.1 },
        config: { card: "{{ input.card }}", amount: "{{ input.amount + tax }}" },
      },
      { id: "mail", handler: "demo_mail", dependencies: ["charge"], config: { to: "{{ input.customer }}" } },
    ],
    output: { charged: "{{ charge.amount }}" },
  }
  const orders = ["Ada", "Grace", "Edsger", "Barbara"].map((customer, n) => ({ customer, amount: 20 + n }))
  for (const input of orders) await (await umbra.submit(charge, input, { labels })).wait()
  const failed = await umbra.submit(charge, { customer: "Alan", amount: 40, card: "declined" }, { labels })
  await failed.wait()
  const fork = await umbra.fork(failed.id, {
    overrides: { charge: { config: { card: "good", amount: "{{ input.amount + tax }}" } } },
    confirm: { unsafe: ["charge", "mail"] },
  })
  await fork.wait()
  // Half of the new orders run the next version, which also writes an invoice.
  const invoice = { id: "invoice", handler: "demo_work", dependencies: ["charge"], config: { seconds: 0.03 } }
  await umbra.workflows.push({ ...charge, nodes: [...charge.nodes, invoice] })
  await umbra.workflows.setAlias("checkout", "live", { 1: 50, 2: 50 })
  for (const workflow of ["checkout@2", "checkout@live"])
    for (const input of orders) await (await umbra.submit(workflow, input, { labels })).wait()
  return [
    "a job that failed, and a fork of it with another card",
    "a workflow with two versions, and an alias that shares its jobs between them",
  ]
}

async function waitingForAPerson(umbra) {
  await umbra.submit({
    name: "article",
    nodes: [
      { id: "draft", handler: "demo_work", config: { seconds: 0.05, result: "A draft about the sea" } },
      {
        id: "approval",
        handler: "wait_for_signal",
        dependencies: ["draft"],
        config: {
          signal: "approval",
          timeout_seconds: 86_400,
          schema: {
            type: "object",
            required: ["approved"],
            properties: {
              approved: { type: "boolean", description: "May it be published?" },
              comment: { type: "string" },
            },
          },
        },
      },
      { id: "publish", handler: "transform", dependencies: ["approval"], config: { value: "{{ draft }}" } },
    ],
  })
  return ["a job that waits for a person: open it, or Now"]
}

/** A list of 200 items, each rendered; one of them fails. Its summary is a child job. */
async function itemsAndChildren(umbra) {
  const summary = {
    name: "summary",
    nodes: [{ id: "count", handler: "transform", config: { value: "{{ input.pages | length }}" } }],
    output: "{{ count }}",
  }
  await umbra.workflows.push(summary)
  const pages = await umbra.submit({
    name: "pages",
    nodes: [
      { id: "list", handler: "transform", config: { value: "{{ range(200) | list }}" } },
      {
        id: "render",
        handler: "demo_page",
        for_each: "{{ list }}",
        max_parallel: 20,
        config: { page: "{{ item }}" },
      },
      {
        id: "summary",
        handler: "workflow",
        dependencies: ["list"],
        config: { workflow: "summary", input: { pages: "{{ list }}" } },
      },
      { id: "bind", handler: "transform", dependencies: ["render", "summary"], config: { value: "bound" } },
    ],
  })
  await pages.wait()
  return ["a list of 200 items, one of which fails, beside a child job"]
}

async function pipelineWithDeadLetters(umbra) {
  const pipeline = await umbra.submit({
    name: "readings",
    init: Array.from({ length: 40 }, (_, n) => ({ body: { sensor: n % 8, total: n * 3, samples: n % 10 } })),
    routes: [
      {
        name: "check",
        inbound: "raw",
        adapters: [{ type: "filter", config: { when: "{{ message.sensor != 7 }}" } }],
        outbound: "good",
      },
      {
        name: "average",
        inbound: "good",
        adapters: [{ type: "transform", config: { value: "{{ message.total / message.samples }}" } }],
        error_handling: { retries: 0 },
      },
    ],
  })
  await pipeline.wait()
  return ["a pipeline with dead letters: sensors without samples"]
}

/** One that runs for an hour, one that is paused, one that was cancelled and one that expired. */
async function goingOn(umbra) {
  const watch = {
    name: "watch",
    nodes: [
      { id: "lamp", handler: "demo_work", config: { seconds: 0.2, result: "lit" } },
      { id: "night", handler: "demo_work", dependencies: ["lamp"], config: { seconds: 3600 } },
      { id: "log", handler: "transform", dependencies: ["night"], config: { value: "{{ lamp }}" } },
    ],
  }
  await umbra.submit(watch)
  const [paused, cancelled] = [await umbra.submit(watch), await umbra.submit(watch)]
  await paused.pause({ reason: "fog" })
  await cancelled.cancel("the lamp is broken")
  const expired = await umbra.submit(watch, {}, { ttlSeconds: 1 })
  await expired.wait()
  return ["a job that runs for an hour, and others that are paused, cancelled and expired"]
}

async function later(umbra) {
  await umbra.submit("article", {}, { delaySeconds: 3600 })
  await umbra.schedules.put("nightly-pages", {
    workflow: "summary",
    cron: "30 2 * * *",
    zone: "Europe/Berlin",
    input: { pages: ["{{ schedule.time }}"] },
  })
  await umbra.schedules.put("heartbeat", { workflow: "summary", every: "30s", input: { pages: [] } })
  const day = 86_400_000
  const filled = await umbra.schedules.backfill("nightly-pages", {
    from: new Date(Date.now() - 5 * day).toISOString(),
    to: new Date().toISOString(),
  })
  await umbra.wait(filled.bulk_id)
  return ["a job that starts in an hour, two schedules, and a backfill of five nights"]
}
