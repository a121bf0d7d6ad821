/**
 * One life of a process of an earlier release that is to leave a populated database behind:
 *
 *     node --import tsx program.js DIST URL first|second|sender
 *
 * DIST is the folder `dist` of that release. It prints "ready" when everything is in the database that this life adds, and
 * waits for a line on its standard input: "stop" (second) stops the process, as a SIGKILL would, after the end of a child job
 * is durable and before its parent knows; "send" (sender) sends messages that no engine reads, and prints "sent".
 */
import { createHash } from "node:crypto"
import { once } from "node:events"
import { writeSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { cancelled, children, ended, first, running, tokens, unfinished, unread, versioned } from "./cases.ts"

const [dist, url, life] = process.argv.slice(2)
const load = file => import(pathToFileURL(join(dist, file)).href)
const { defineAdapter, defineHandler, defineProvider, fail, openUmbra } = await load("index.js")
const { armFailpoint } = await load("failpoints.js")
const { openJournal } = await load("journal/open.js")

const forever = () => new Promise(() => {})
let endChild = () => {}

const handlers = [
  defineHandler({
    name: "step",
    run(config, ctx) {
      ctx.usage({ steps: 1 })
      return config
    },
  }),
  defineHandler({ name: "hang", run: forever }),
  defineHandler({
    name: "flaky",
    run() {
      throw new Error("not today")
    },
  }),
  defineHandler({
    name: "declined",
    run: () => fail("Card declined", { code: "CARD_DECLINED", retryable: false, details: { card: 4 } }),
  }),
  defineHandler({ name: "large", run: () => "x".repeat(300_000) }),
  defineHandler({
    name: "item",
    run({ item }) {
      if (item === 2) throw new Error("not this one")
      return item < 2 ? { item } : forever()
    },
  }),
  defineHandler({
    name: "last",
    run: () =>
      new Promise(resolve => {
        endChild = () => resolve("the end")
      }),
  }),
]
const later = defineHandler({ name: "later", run: () => "later" })

const verify = ({ headers }) => headers.signature === "genuine"
const webhook = ({ body }) => ({ externalId: body.id, eventId: body.event, news: body.news })
const provider = (name, rest = {}) =>
  defineProvider({
    ...{ name, rate: null, concurrency: null, pollSeconds: [36_000], verify, webhook },
    submit: ({ operation }) => ({ externalId: operation }),
    poll: () => ({ status: "running" }),
    cancel() {
      throw new Error("cannot be cancelled now")
    },
    ...rest,
  })
const providers = [
  provider("acme"),
  provider("polled", { pollSeconds: [600] }),
  provider("showing", {
    pollSeconds: [0.2, 36_000],
    poll: () => ({ status: "running", progress: 40, preview: { frames: 7 } }),
  }),
  provider("slow", { submit: forever }),
  provider("narrow", { concurrency: 1 }),
]

const adapters = [
  defineAdapter({
    type: "number",
    async process({ body: { number } }, { storage }) {
      if (number === 3) fail("three is not wanted", { retryable: false })
      if (number === 4) throw new Error("not yet")
      if (number > 4) await forever()
      await storage.put(`seen ${number}`, true)
      return { number }
    },
  }),
  defineAdapter({ type: "sum", process: () => null }),
]

async function until(what, isSo) {
  for (const end = Date.now() + 60_000; !(await isSo()); ) {
    if (Date.now() > end) throw new Error(`not within a minute: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

const log = { debug() {}, info() {}, warn: tell, error: tell, child: () => log }
function tell(fields, message) {
  console.error(
    life,
    message,
    JSON.stringify(fields, (_, value) => (value instanceof Error ? String(value) : value)),
  )
}

const open = options => openUmbra(url, { handlers, providers, adapters, log, ...options })
const send = (umbra, id, news, event = id) =>
  umbra.webhooks.receive("acme", {
    body: Buffer.from(JSON.stringify({ id, event, news })),
    headers: { signature: "genuine" },
  })
const node = async (umbra, id, name = "work") => (await umbra.graph(id)).nodes.find(({ id }) => id === name)

/** Is the start of the node on record? Work of less than a second has none. */
async function hasStarted(umbra, jobId, id) {
  const { facts, plan } = await umbra.queries.fold(jobId)
  return facts.some(({ fact }) => fact.type === "node_started" && plan.nodes[fact.node].id === id)
}

/** The ids of jobs by their case. */
async function jobsByCase(umbra) {
  const jobs = await umbra.jobs({ limit: 500 })
  return Object.fromEntries(
    jobs.flatMap(({ job_id, labels }) => (labels?.case ? [[labels.case, job_id]] : [])),
  )
}

const submit = async (umbra, name, workflow, options = {}) => {
  const { id } = await umbra.submit(workflow, { case: name }, { labels: { case: name }, ...options })
  return id
}

async function livesFirst() {
  const umbra = await open({ handlers: [...handlers, later] })
  for (const workflow of [...children, ...versioned, running]) await umbra.register(workflow)
  await umbra.register(unfinished["no-handler"])
  for (const [name, workflow] of Object.entries(first)) {
    const id = await submit(umbra, name, workflow)
    await until(`${name} runs`, async () => await hasStarted(umbra, id, "work"))
  }
}

async function livesSecond() {
  const umbra = await open()
  await registry(umbra)
  for (const [name, [workflow, status]] of Object.entries(ended)) {
    const id = await submit(umbra, name, workflow)
    const { status: found } = await umbra.wait(id)
    if (found !== status) throw new Error(`${name} is ${found}`)
    if (name === "pipeline-drained") await replay(umbra, id)
  }
  const deleted = await submit(umbra, "deleted", ended.completed[0])
  await umbra.wait(deleted)
  await umbra.delete(deleted)
  for (const [name, workflow] of Object.entries(cancelled)) {
    const id = await submit(umbra, name, workflow)
    await until(`${name} runs`, async () => ["RUNNING", "WAITING"].includes((await node(umbra, id)).status))
    await umbra.cancel(id, "enough")
  }
  await submit(umbra, "keyed", unfinished.signal, {
    idempotencyKey: "order-1",
    priority: 5,
    submittedBy: "token-1",
  })
  for (const owner of ["alice", "bob"]) await submit(umbra, "owned", unfinished.signal, { owner })
  const ids = {}
  for (const [name, workflow] of Object.entries(unfinished)) {
    // Stored by the first life, whose process had the handler.
    ids[name] = await submit(umbra, name, name === "no-handler" ? name : workflow)
    // Slots are granted in the order in which they were requested.
    if (name.startsWith("slot-"))
      await until(`${name} asked`, async () => (await node(umbra, ids[name])).status !== "PENDING")
  }
  await umbra.signal(ids["signal-buffered"], "go", { buffered: true })
  await umbra.registry.deleteWorkflow({
    owner: "local",
    name: "deleted-workflow",
    at: Date.now(),
    by: "local",
  })
  const waits = (name, wait, node) =>
    until(name, async () =>
      (await umbra.graph(ids[name])).waiting_for.some(
        ({ kind, ...rest }) => kind === wait && (node === undefined || rest.node === node),
      ),
    )
  for (const name of ["webhook", "poll", "preview", "operation-failed", "slot-held", "webhook-unread"])
    await waits(name, "external")
  await until("three items wait", async () =>
    (await umbra.items(ids["items-external"], "work")).items.every(({ status }) => status === "WAITING"),
  )
  await send(umbra, "op-failed", { status: "failed", message: "out of film" })
  await send(umbra, "op-item-0", { status: "completed", output: "clip 0" })
  await settled(umbra, ids)
  process.stdin.once("data", () => {
    armFailpoint("append.after", 1, () => {
      writeSync(1, "stopped\n")
      process.kill(process.pid, "SIGSTOP")
    })
    endChild()
  })
}

async function registry(umbra) {
  const { registry } = umbra
  const key = { owner: "local", name: "versioned", alias: "stable", by: "local" }
  await registry.putAlias({ ...key, targets: [{ version: 1, weight: 100 }], at: Date.now() })
  await registry.putAlias({
    ...key,
    targets: [
      { version: 1, weight: 50 },
      { version: 2, weight: 50 },
    ],
    at: Date.now(),
  })
  for (const [index, text] of tokens.entries()) {
    const id = `00000000-0000-7000-8000-00000000000${index}`
    await registry.putToken({
      ...{
        id,
        hash: createHash("sha256").update(text).digest("hex"),
        owner: "alice",
        scopes: ["read", "submit"],
      },
      ...{
        lastFour: text.slice(-4),
        createdAt: Date.now(),
        rateLimit: 10,
        maxUnfinishedJobs: null,
        maxBodyBytes: 1000,
      },
    })
    if (index === 1) await registry.revokeToken({ id, at: Date.now() })
  }
}

async function replay(umbra, id) {
  const { jobId } = await umbra.pipelines.replay(id, {})
  await umbra.wait(jobId)
}

/** Resolves when nothing moves any more but what hangs. */
async function settled(umbra, ids) {
  const is = (name, status) =>
    until(`${name} is ${status}`, async () => (await node(umbra, ids[name])).status === status)
  for (const name of [
    "signal",
    "signal-default",
    "signal-too-late",
    "expiring",
    "sleeping",
    "child-signal",
    "child-running",
    "child-ended",
    "pipeline-node",
    "deleted-workflow",
    "signal-unread",
    "cancel-unread",
  ])
    await is(name, "WAITING")
  for (const name of [
    "retrying",
    "operation-failed",
    "slot-granted",
    "slot-awaited",
    "no-handler",
    "no-provider",
    "child-failed",
  ])
    await is(name, "QUEUED")
  await until("the starts of what runs are on record", async () => {
    for (const [name, id] of [
      ["running", "work"],
      ["signal-buffered", "before"],
      ["submitting", "work"],
    ])
      if (!(await hasStarted(umbra, ids[name], id))) return false
    return true
  })
  await until("two items are done", async () => {
    const { items } = await umbra.items(ids.items, "work")
    return items.filter(({ status }) => status === "COMPLETED").length === 2
  })
  await until("the preview is there", async () => (await umbra.job(ids.preview)).status === "PREVIEW")
  await until(
    "an item's operation is done",
    async () => (await umbra.items(ids["items-external"], "work")).items[0].status === "COMPLETED",
  )
  await until("the pipeline's messages are where they should be", async () => {
    const [route] = (await umbra.graph(ids["pipeline-running"])).routes
    return route.done === 2 && route.dead_lettered === 1
  })
  await until("the child's last node runs", async () => {
    const [{ job_id }] = await umbra.jobs({ parentId: ids["child-ended"] })
    return await hasStarted(umbra, job_id, "last")
  })
  // No process records that nothing happens: two beats, and what was on its way is durable.
  await new Promise(resolve => setTimeout(resolve, 6_000))
}

async function livesAsSender() {
  const umbra = await open({ roles: ["api", "webhooks"] })
  const ids = await jobsByCase(umbra)
  process.stdin.once("data", async () => {
    const journal = await openJournal(url)
    // As a process does whose limit for this provider is higher.
    await journal.providers.grantSlots({ provider: "narrow", limit: 2, leaseMs: 3_600_000, at: Date.now() })
    await send(umbra, "op-unread", { status: "completed", output: "unread" })
    await umbra.webhooks.receive("slow", {
      body: Buffer.from(
        JSON.stringify({ id: "op-early", event: "early", news: { status: "completed", output: "early" } }),
      ),
      headers: { signature: "genuine" },
    })
    await umbra.webhooks.receive("acme", { body: Buffer.from("{}"), headers: {} }).catch(() => {})
    // None of these is answered.
    void umbra.signal(ids["signal-unread"], "go", { unread: true })
    void umbra.cancel(ids["cancel-unread"], "unread")
    void umbra.retry(ids["retry-unread"])
    void umbra.delete(ids["delete-unread"])
    void submit(umbra, "submit-unread", unread["submit-unread"], { idempotencyKey: "order-2" })
    const open = async () =>
      (await journal.readMessages({ partitions: [...Array(64).keys()], limit: 100 })).length
    await until("all messages are there", async () => (await open()) >= 7)
    console.log("sent")
  })
}

await { first: livesFirst, second: livesSecond, sender: livesAsSender }[life]()
console.log("ready")
await once(process, "never")
